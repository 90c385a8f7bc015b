"""What an installed widemargin must do: fit, predict, save, load, and run as a command. ``make dist`` runs this.

It imports nothing but the package, and is run away from the checkout, so that what is installed is what is tried.
"""

import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import numpy as np

import widemargin


def machines(X, y, folder):
    """Estimators of every kind fit, predict, and come back from a file with the same predictions."""
    for model in (
        widemargin.LinearSVC(),
        widemargin.SVC(C=10.0),
        widemargin.BudgetedSVC(50, random_state=0),
        widemargin.IncrementalSVC(),
    ):
        name = type(model).__name__
        model.fit(X[:300], y[:300])
        share = model.score(X[300:], y[300:])
        assert share > 0.5, f"{name} is right in {share:.0%} of the examples, which a constant is too"
        model.save(folder / "model.npz")
        again = widemargin.load(folder / "model.npz")
        assert (again.predict(X) == model.predict(X)).all(), name
        print(f"{name}: {share:.1%} right, {model.stop_reason_}, the same from its file")


def command(X, y, folder):
    """The command trains, measures and predicts."""
    widemargin.data.write_data(folder / "train.svm", X[:300], y[:300])
    widemargin.data.write_data(folder / "test.svm", X[300:], y[300:])
    program = Path(sysconfig.get_path("scripts")) / "widemargin"
    said = ""
    for line in ("--version", "train train.svm -o trained.npz -q", "evaluate trained.npz test.svm", "info trained.npz"):
        done = subprocess.run([program, *line.split()], cwd=folder, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, f"widemargin {line}: {done.stderr}"
        said += done.stdout
        print(f"widemargin {line}: done")
    assert f"widemargin {widemargin.__version__}\n" in said
    done = subprocess.run([program, "train", "absent.svm"], cwd=folder, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr


def main(version):
    assert widemargin.__version__ == version, f"{widemargin.__version__} is installed, not {version}"
    home = Path(widemargin.__file__).parent
    assert home.is_relative_to(sysconfig.get_path("purelib")), f"{home} is not what was installed"
    assert (home / "py.typed").is_file()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5))
    y = np.where(X @ rng.normal(size=5) > 0, 1, -1)
    with tempfile.TemporaryDirectory() as folder:
        machines(X, y, Path(folder))
        command(X, y, Path(folder))
    print(f"widemargin {version} works, Python {sys.version.split()[0]}, NumPy {np.__version__}")


if __name__ == "__main__":
    main(sys.argv[1])
