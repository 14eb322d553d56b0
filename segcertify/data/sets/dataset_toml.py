"""DatasetToml: a ``dataset.toml``, whose entries are checked when they are asked for."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from segcertify.data.label_codes import IGNORE
from segcertify.errors import InputError
from segcertify.figures.palette import Bytes, voc_colours
from segcertify.storage import limits
from segcertify.storage.plain_values import read_toml

_LARGEST = 65535


class DatasetToml:
    """The entries of ``root/dataset.toml``: those of every data set, of which ``classes`` is required, and ``keys``."""

    def __init__(self, root: Path, keys: Sequence[str], *, see: str) -> None:
        self.root, self.path = root, root / "dataset.toml"
        missing = f"no file at {self.path}: write one with at least classes = [...] (see {see})"
        self.entries = read_toml(self.path, missing=missing, cure="correct it")
        known = ("name", *keys, "classes", "colours", "ignore", "label_map")
        if unknown := sorted(set(self.entries) - set(known)):
            raise InputError(f"{self.path} has an unknown entry {unknown[0]!r}: use {', '.join(known)}")
        if "classes" not in self.entries:
            raise InputError(f"{self.path} lacks the entry 'classes': add, for example, classes = ['wall', 'road']")
        self.classes = self.texts("classes")
        if len(self.classes) > limits.CLASSES:
            raise InputError(
                f"{self.path}: there are {len(self.classes)} classes, but at most {limits.CLASSES} are read"
            )
        if len(set(self.classes)) < len(self.classes):
            raise InputError(f"{self.path}: classes must be different, but got {list(self.classes)}")

    def text(self, key: str, default: str) -> str:
        """An entry that is a string."""
        return self._text(key, self.entries.get(key, default))

    def texts(self, key: str, default: Sequence[str] = ()) -> tuple[str, ...]:
        """An entry that is a string or several of them."""
        value = self.entries.get(key, list(default))
        return tuple(self._text(key, entry) for entry in (value if isinstance(value, list) and value else [value]))

    def table(self, key: str) -> dict[str, Any]:
        """An entry that is a table, empty if it is left out."""
        value = self.entries.get(key, {})
        if not isinstance(value, dict):
            raise InputError(f"{self.path}: {key} must be a table such as [{key}], but got {value!r}")
        return value

    def integer(self, key: str, value: Any, *, smallest: int = 0, largest: int = _LARGEST) -> int:
        """A whole number within bounds."""
        if not isinstance(value, int) or isinstance(value, bool) or not smallest <= value <= largest:
            raise InputError(f"{self.path}: {key} must be a whole number in {smallest} .. {largest}, but got {value!r}")
        return value

    def folders(self, split: str | None, *keys: str) -> tuple[str, list[Path]]:
        """The data set's name, with its split if it has several, and the folders of some entries."""
        texts = [self.text(key, key) for key in keys]
        divided = any("{split}" in text for text in texts)
        if split and not divided:
            cure = f'write {keys[0]} = "{{split}}/{keys[0]}"'
            raise InputError(f"{self.path} knows no splits, but got split={split!r}: {cure}")
        split, name = split or "val", self.text("name", self.root.resolve().name)
        folders = [self.root / text.replace("{split}", split) for text in texts]
        return f"{name}/{split}" if divided else name, folders

    def codes(self, *, smallest: int = 0) -> dict[int, int]:
        """What each label value stands for, by the entries ``label_map`` and ``ignore``."""
        classes = self.classes
        codes = {} if "label_map" in self.entries else {value: value for value in range(len(classes))}
        for key, name in self.table("label_map").items():
            if not key.isdecimal() or len(key) > 9 or name not in classes:
                raise InputError(
                    f"{self.path}: label_map takes a label value and one of the classes {', '.join(classes)}, "
                    f"but has {key} = {name!r}"
                )
            codes[self.integer("label_map", int(key))] = classes.index(name)
        ignore = self.entries.get("ignore", [])
        for value in ignore if isinstance(ignore, list) else [ignore]:
            if self.integer("ignore", value, smallest=smallest) in codes:
                raise InputError(
                    f"{self.path}: the value {value} is ignored and also the class {classes[codes[value]]!r}: "
                    "take one away, or say with a label_map which value is which class"
                )
            codes[value] = IGNORE
        return codes

    def colours(self) -> Bytes:
        """A colour per class, by the entry ``colours``."""
        listed, count = self.entries.get("colours"), len(self.classes)
        if listed is None:
            return voc_colours(count)
        if not isinstance(listed, list) or len(listed) != count:
            raise InputError(f"{self.path}: colours must hold one [red, green, blue] for each of {count} classes")
        for colour in listed:
            if not isinstance(colour, list) or len(colour) != 3:
                raise InputError(f"{self.path}: a colour is [red, green, blue], but got {colour!r}")
            for part in colour:
                self.integer("colours", part, largest=255)
        return np.array(listed, np.uint8)

    def _text(self, key: str, value: Any) -> str:
        if not isinstance(value, str) or not value:
            raise InputError(f"{self.path}: {key} must be a string, but got {value!r}")
        return value
