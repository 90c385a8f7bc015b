"""Builds sdist and wheel, installs each where nothing else is, and tries it there: ``make dist``.

``python tests/distributions.py`` needs the package build. The files come into dist; environments into .venvs.
"""

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

from versions import ROOT, VENVS, made

DIST = ROOT / "dist"
#: What tests and the site need, of a checkout.
NEEDED = (
    "Makefile", "pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff",
    "LICENSE", "docs/conf.py", "docs/index.md", "examples/demo.py", "examples/tutorials/README.txt",
    "tests/conftest.py", "tests/smoke.py", "benchmarks/peers/linear.py", "src/widemargin/py.typed",
)  # fmt: skip


def version():
    """The version that the source says."""
    source = (ROOT / "src" / "widemargin" / "version.py").read_text(encoding="utf-8")
    return re.search(r'^__version__ = "(.+)"$', source, re.MULTILINE)[1]


def check_contents(sdist, wheel):
    """The sdist has what tests and site need; the wheel has the package, and nothing beside it."""
    with tarfile.open(sdist) as file:
        held = {name.partition("/")[2] for name in file.getnames()}
    assert not set(NEEDED) - held, f"{sdist.name} lacks {sorted(set(NEEDED) - held)}"
    with zipfile.ZipFile(wheel) as file:
        tops = {name.partition("/")[0] for name in file.namelist()}
    assert tops == {"widemargin", f"widemargin-{version()}.dist-info"}, f"{wheel.name} has {sorted(tops)}"


def main():
    shutil.rmtree(DIST, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "build", "--outdir", DIST, ROOT], check=True, stdout=subprocess.DEVNULL)
    (sdist,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    check_contents(sdist, wheel)
    for file in (wheel, sdist):
        since = time.perf_counter()
        python = made(VENVS / f"dist-{file.suffix[1:]}", sys.executable, [f"widemargin[command] @ {file.as_uri()}"])
        print(f"{file.name}, {file.stat().st_size / 1e6:.1f} MB, installed", flush=True)
        with tempfile.TemporaryDirectory() as folder:  # away from the checkout, without its machine code
            subprocess.run(
                [python, "-P", ROOT / "tests" / "smoke.py", version()],
                cwd=folder, check=True, env={"PATH": "/usr/bin:/bin", "HOME": folder, "NUMBA_CACHE_DIR": folder},
            )  # fmt: skip
        print(f"{(time.perf_counter() - since) / 60:.1f} minutes\n", flush=True)


if __name__ == "__main__":
    main()
