"""Archives that try to run code are refused, and what torch reads was checked."""

import json
import os
import pickle
import zipfile

import pytest
import torch
from exploits import ATTACKS, MARK, Attack, changed, exported

from segcertify import InputError, models
from segcertify.models.formats.pt2_archive import checked_archive


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """A good archive, in the working folder."""
    monkeypatch.chdir(tmp_path)
    return exported(tmp_path)


def test_a_good_archive_is_read(archive):
    model = models.load_pt2(archive)
    assert model(torch.rand(3, 3, 8, 8)).shape == (3, 5, 8, 8)


@pytest.mark.parametrize("attack", ATTACKS)
def test_code_in_a_program_is_refused_and_not_run(archive, attack, monkeypatch):
    archive.with_name("evil.py").write_text(f"import os\nos.mkdir('{MARK}')\n")
    monkeypatch.syspath_prepend(archive.parent)
    file = changed(archive, "models/model.json", attack)
    with pytest.raises(InputError, match=r"bad.pt2 is refused: its \w+ is .*might run as code.*not loaded"):
        models.load_pt2(file)(torch.rand(2, 3, 8, 8))
    assert not os.path.exists(MARK)


@pytest.mark.parametrize("name", ["opaque_obj_0", "OPAQUE_OBJ_0", "x/../opaque_obj_0"])
def test_a_pickled_object_is_refused_and_not_run(archive, name):
    """Torch finds parts whatever the case of their names."""

    def with_object(config):
        config["config"]["evil"] = {
            "path_name": "opaque_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None
        }  # fmt: skip

    pickled = {f"good/data/constants/{name}": pickle.dumps(Attack())}
    with pytest.raises(InputError, match=r"bad\.pt2 "):
        models.load_pt2(changed(archive, "constants_config.json", with_object, pickled))
    assert not os.path.exists(MARK)


@pytest.mark.parametrize("name", ["constants/opaque_obj_0", "constants/CUSTOM_OBJ_0", "AOTInductor/model/a.so"])
def test_objects_and_libraries_are_refused_whatever_the_case_of_their_names(archive, name):
    with pytest.raises(InputError, match=f"compiled code or pickled objects .*{name}"):
        checked_archive(changed(archive, "nothing", None, {f"good/data/{name}": b""}))


def test_a_list_of_weights_names_no_other_part(archive):
    def elsewhere(config):
        config["config"]["layer.bias"]["path_name"] = "../constants/opaque_obj_0"

    with pytest.raises(InputError, match=r"refused: a weight lies in '\.\./constants/opaque_obj_0'"):
        checked_archive(changed(archive, "weights_config.json", elsewhere))


@pytest.mark.parametrize("name", ["good/models/other.txt", "good/MODELS/model.json", "good/data/weights/a.so"])
def test_other_parts_are_refused(archive, name):
    with pytest.raises(InputError, match="no part of a program or is there twice"):
        checked_archive(changed(archive, "nothing", None, {name: b"{}"}))


def test_compressed_parts_are_refused(archive):
    with zipfile.ZipFile(archive, "a", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("good/extra/large", bytes(10**7))
    with pytest.raises(InputError, match="compressed or overlapping"):
        checked_archive(archive)


def test_torch_reads_the_copy_that_was_checked(archive):
    """The copy holds the same parts, without remarks on the source."""
    with zipfile.ZipFile(checked_archive(archive)) as copy, zipfile.ZipFile(archive) as original:
        assert copy.namelist() == original.namelist()
        program = json.loads(copy.read("good/models/model.json"))
    assert all(node["metadata"] == {} for node in program["graph_module"]["graph"]["nodes"])
