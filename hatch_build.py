"""Compile the wire protocols, ours, HBase's and BookKeeper's, when the project is built or installed."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

__all__ = ["ProtocolBuildHook"]

PROTOS = (
    Path("hedwig/wire/pubsub.proto"),
    Path("hedwig/metadata/hbase/native/hbase.proto"),
    Path("hedwig/hub/ledgers/bookkeeper/bookkeeper.proto"),
)
GENERATED = tuple(proto.with_name(proto.stem + ending) for proto in PROTOS for ending in ("_pb2.py", "_pb2.pyi"))


class ProtocolBuildHook(BuildHookInterface[Any]):
    """Generate the protobuf modules and their types beside the .proto files, for wheels and editable installs alike."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 (the name is hatchling's)
        """Write the generated files and add them to the build, although git ignores them.

        Raises: RuntimeError - protoc refused a file; its own message is on standard error.
        """
        # Imported late: hatchling loads this module also for commands that need no compiler.
        from grpc_tools import protoc

        root = Path(self.root)
        with TemporaryDirectory() as out:
            arguments = ["protoc", f"-I{root}", f"--python_out={out}", f"--pyi_out={out}"]
            for proto in PROTOS:
                if protoc.main([*arguments, str(root / proto)]) != 0:
                    raise RuntimeError(f"protoc cannot compile {proto}: see its message above and correct the file")
            for path in GENERATED:
                _write_if_changed(root / path, (Path(out) / path).read_bytes())
        build_data["artifacts"].extend(f"/{path.as_posix()}" for path in GENERATED)


def _write_if_changed(path: Path, content: bytes) -> None:
    """Replace a file in one step, so that a process importing it meanwhile never reads half of it."""
    if path.exists() and path.read_bytes() == content:
        return
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(content)
    partial.replace(path)
