"""The parts of a chair, certified against moved points: writes `cloud.png`.

The chair is generated and the network `parts` ships with segcertify. Noise goes on the coordinates alone, not on the
normals. Grey points abstain.
"""

import segcertify as sc

if __name__ == "__main__":
    shapes = sc.data.load("shapes:?category=Chair&count=1&normals=true&points=600")
    chair = shapes[0]  # (600, 6): x y z nx ny nz
    model = sc.models.load("parts?category=Chair")
    noise = sc.Gaussian(0.1, channels=(0, 1, 2), axis=1)
    certificate = sc.certify(model, chair.x, noise=noise, tau=0.75, n=100, n0=10, seed=0)
    print(certificate.sentence)
    right = (certificate.labels == chair.target).mean()
    print(f"Certified and right: {right:.1%} of the points.")
    certificate.plot(chair.x, names=shapes.classes).savefig("cloud.png", dpi=150)
