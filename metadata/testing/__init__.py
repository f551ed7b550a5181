"""The conformance suite of the metadata contract, for third-party backends: see docs/explanation/metadata.md."""

from hedwig.extras import needed

with needed("testing", "the conformance suite needs"):
    import hypothesis  # noqa: F401 (the suite imports it later, where a test run would fail amid its collection)
    import pytest

# Failing asserts in these modules show their values, as in a module of tests.
pytest.register_assert_rewrite(*(f"{__name__}.{name}" for name in ("bulk_contents", "model_machine", "suite")))
