"""`segcertify demo`; what a run of it proves and prints is tested in tests/demo."""

import segcertify as sc


def test_json(segcertify, folder):
    found = segcertify("demo", "--json", "--quiet").json
    certificate = sc.Certificate.load(folder / "certified" / "demo" / "certificate.safetensors")
    assert (found["claim"], found["certified"]) == (certificate.claim, certificate.certified)


def test_an_unknown_shape(segcertify, folder):
    assert "error: unknown category 'Sofa'" in segcertify("demo", "--shape", "Sofa", code=2).err
    assert not list(folder.iterdir())
