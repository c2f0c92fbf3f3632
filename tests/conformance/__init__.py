"""What every job system must do, tried on a real cluster."""

import pytest

pytest.register_assert_rewrite(f"{__name__}.world", f"{__name__}.verdicts", f"{__name__}.stories")
