"""What commands write on standard error is theirs alone: no line on compilation comes in between on a busy machine."""

import pytest

from widemargin.core.compiling import notice


@pytest.fixture(autouse=True)
def no_line_on_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notice._notice, "said", True)
