"""Limits on what is read: larger files and numbers are refused before they take memory or time.

Each is far above what segmentation needs. ``docs/limits.md`` lists them, in these words.
"""

MIB = 2**20

JSON_BYTES = 8 * MIB
"""bytes of a JSON file, or of one line of ``records.jsonl``"""
TOML_BYTES = MIB // 16
"""bytes of a ``dataset.toml``"""
TEXT_BYTES = 64 * MIB
"""bytes of a text file: a cloud, a list of names, a training log"""
TEXT_LINES = 1_000_000
"""lines of such a text file"""
HEADED_BYTES = 256 * MIB
"""bytes of a PLY or PCD file"""
ARRAY_BYTES = 512 * MIB
"""bytes of a ``.npy`` file, or of a NIfTI file, packed and unpacked"""
DETAILS_BYTES = 768 * MIB
"""bytes of PASCAL in Detail's ``trainval_merged.json``"""
IMAGE_BYTES = 512 * MIB
"""bytes of an image file"""
ARCHIVE_BYTES = 4096 * MIB
"""bytes of a file of votes, of a certificate, a checkpoint or a training state"""
MODEL_BYTES = 8192 * MIB
"""bytes of a model file of any kind"""
PIXELS = 48 * MIB
"""pixels of an image, before and after it is resized (8192 x 6144)"""
SIDE = 65_536
"""pixels of an image's height or width, before and after it is resized"""
PIXELS_A_BYTE = 8 * 1032
"""pixels of a PNG for each byte of the file: no PNG holds more (one bit each, and DEFLATE makes 1,032 bytes of one)"""
SCANS = 64
"""scans of a JPEG"""
POINTS = 10_000_000
"""points of a cloud"""
CLASSES = 4096
"""classes of a data set or an evaluation"""
DRAWS = 10_000_000
"""draws n of votes, of a certificate or of a setting"""
NESTED = 64
"""levels of nested lists and objects in JSON and TOML"""
DIGITS = 300
"""digits of a whole number in JSON"""
FILES = 500_000
"""files under one folder of a data set, where each folder counts as 20"""
FOLDERS = 40
"""levels of folders in a data set"""
SCENES = 1_000_000
"""scenes of a mixture of data sets, each counted as often as it is taken"""
LAYERS = 1000
"""layers, blocks or modules that the description of a network asks for"""
WIDTH = 65_536
"""any other number in the description of a network"""
