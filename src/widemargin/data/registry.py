"""The papers' data sets by name: from the folder ``$WIDEMARGIN_DATA``, else downloaded from LIBSVM's site.

Downloads are kept in the user's cache folder. A checksum of the parsed rows shows that they are the right ones, however
the file is compressed and its numbers are written. Sets without a checksum are those whose published file could not be
compared.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..files import replacing
from .libsvm import LibsvmText
from .lines import MAGIC

#: The address that all data sets stand below.
PLACE = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"


class Dataset(NamedTuple):
    """A data set: its path below :data:`PLACE`, its numbers of features and rows, the checksum of its rows if known."""

    place: str
    n_features: int
    n_rows: int
    sum: str | None = None


DATASETS: dict[str, Dataset] = {
    "a9a": Dataset("binary/a9a", 123, 32561, "f94af4ea8d2e09dac237922342a2d2d4"),
    "a9a.t": Dataset("binary/a9a.t", 123, 16281, "8470be9c33561a70f1560ebb49f07ca7"),
    "mnist": Dataset("multiclass/mnist.bz2", 784, 60000),
    "mnist.t": Dataset("multiclass/mnist.t.bz2", 784, 10000),
    "covtype": Dataset("multiclass/covtype.bz2", 54, 581012),
    "usps": Dataset("multiclass/usps.bz2", 256, 7291),
    "usps.t": Dataset("multiclass/usps.t.bz2", 256, 2007),
    "ijcnn1": Dataset("binary/ijcnn1.bz2", 22, 49990),
    "ijcnn1.t": Dataset("binary/ijcnn1.t.bz2", 22, 91701),
    "letter": Dataset("multiclass/letter.scale", 16, 15000),
    "letter.t": Dataset("multiclass/letter.scale.t", 16, 5000),
    "satimage": Dataset("multiclass/satimage.scale", 36, 4435),
    "satimage.t": Dataset("multiclass/satimage.scale.t", 36, 2000),
    "shuttle": Dataset("multiclass/shuttle.scale", 9, 43500),
    "shuttle.t": Dataset("multiclass/shuttle.scale.t", 9, 14500),
    "pendigits": Dataset("multiclass/pendigits", 16, 7494),
    "pendigits.t": Dataset("multiclass/pendigits.t", 16, 3498),
    "dna": Dataset("multiclass/dna.scale", 180, 2000),
    "dna.t": Dataset("multiclass/dna.scale.t", 180, 1186),
    "rcv1": Dataset("binary/rcv1_train.binary.bz2", 47236, 20242),
    "real-sim": Dataset("binary/real-sim.bz2", 20958, 72309),
    "news20": Dataset("binary/news20.binary.bz2", 1355191, 19996),
    "webspam": Dataset("binary/webspam_wc_normalized_unigram.svm.xz", 254, 350000),
    "cadata": Dataset("regression/cadata", 8, 20640),
    "cpusmall": Dataset("regression/cpusmall", 12, 8192),
}


def sum_of(path: str | os.PathLike[str], n_features: int) -> str:
    """A checksum of the rows of a file of LIBSVM text."""
    total = hashlib.sha256()
    for X, y in LibsvmText(path, n_features=n_features, zero_based=False):
        for array in (np.diff(X.indptr), X.indices, X.data, y):
            total.update(np.ascontiguousarray(array, "<f8").tobytes())
    return total.hexdigest()[:32]


def cache_folder() -> Path:
    """The folder where downloads are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "widemargin" / "data"


def local(name: str) -> Path | None:
    """The file of a data set on this machine, or None."""
    own = os.environ.get("WIDEMARGIN_DATA", "")
    folders = [Path(own), cache_folder()] if own else [cache_folder()]
    paths = (folder / f"{name}{suffix}" for folder in folders for suffix in ("", *(f".{each}" for each in MAGIC)))
    return next((path for path in paths if path.is_file()), None)


def find(name: str) -> Path:
    """The file of a data set, downloaded if it is not on this machine."""
    found = local(name)
    return found if found is not None else _download(name)


def _download(name: str, opened: Any = urllib.request.urlopen) -> Path:
    known = DATASETS[name]
    suffix = next((f".{each}" for each in MAGIC if known.place.endswith(f".{each}")), "")
    path = cache_folder() / f"{name}{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    url = f"{PLACE}/{known.place}"
    logging.getLogger("widemargin").info("downloading %s", url)
    try:
        with opened(url, timeout=60) as answer, replacing(path) as file:
            shutil.copyfileobj(answer, file)
            file.flush()
            rows = LibsvmText(file.name, n_features=known.n_features, zero_based=False).summary().n_rows
            if rows != known.n_rows:
                raise ValueError(f"{url} has {rows} rows, not {known.n_rows}")
            if known.sum is not None and sum_of(file.name, known.n_features) != known.sum:
                raise ValueError(f"{url} is not the data set {name!r}: its rows have another sum")
    except OSError as bad:
        raise OSError(
            f"{name!r} is not in $WIDEMARGIN_DATA, and {url} cannot be read ({bad}): download it, and set "
            "WIDEMARGIN_DATA to its folder"
        ) from bad
    return path
