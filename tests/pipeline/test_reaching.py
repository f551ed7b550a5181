"""What a job is given is looked at before Spark starts: places that can be none are told, all others are left alone."""

import pytest

from hedwig.errors import ConfigurationError
from pipeline.reaching import check_folder, check_source


@pytest.mark.parametrize("place", ["./a", "/a b/ä", "hdfs://n/a", "s3a://b/a-1", "file:///a", "hbase://zk/h", "a:b"])
def test_places_that_may_be_are_left_alone(place: str) -> None:
    check_source(place, {})


@pytest.mark.parametrize("place", ["sqllite:///x", "hbse://zk/h", "mysql://host/x"])
def test_schemes_that_nobody_knows_are_told(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    with pytest.raises(ConfigurationError, match="is neither a metadata backend"):
        check_source(place, {})
    scheme = place.partition(":")[0]
    check_source(place, {f"spark.hadoop.fs.{scheme}.impl": "example.FileSystem"})


def test_a_cluster_may_have_file_systems_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    check_source("tachyonfs://host/x", {})
    with pytest.raises(ConfigurationError, match="'zookeper' is neither"):
        check_source("zookeper://host/x", {})


@pytest.mark.parametrize("character", list("[]{}*?\\"))
def test_names_that_spark_would_not_find_again_are_told(character: str) -> None:
    with pytest.raises(ConfigurationError, match="which Spark takes for a pattern"):
        check_folder(f"/a/b{character}c")
