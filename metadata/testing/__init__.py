"""The conformance suite of the metadata contract, for third-party backends: see docs/explanation/metadata.md."""

import pytest

# Failing asserts in these modules show their values, as in a module of tests.
pytest.register_assert_rewrite(*(f"{__name__}.{name}" for name in ("bulk_contents", "model_machine", "suite")))
