"""The conformance suite of the metadata contract, for the backends of others: see docs/explanation/metadata.md."""

import pytest

# What asserts here tells why it fails, as in a module of tests.
pytest.register_assert_rewrite(*(f"{__name__}.{name}" for name in ("bulk_contents", "model_machine", "suite")))
