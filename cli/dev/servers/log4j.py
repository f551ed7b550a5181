"""The log4j 1 configuration of HBase and of the original Hedwig. All goes to standard error, the server's log file."""

from pathlib import Path

from hedwig.cli.dev.servers.server_kind import write_properties

__all__ = ["write_log4j"]


def write_log4j(directory: Path) -> None:
    """Write log4j.properties into `directory`, which must come first on the class path."""
    write_properties(
        directory / "log4j.properties",
        {
            "log4j.rootLogger": "INFO, console",
            "log4j.appender.console": "org.apache.log4j.ConsoleAppender",
            "log4j.appender.console.target": "System.err",
            "log4j.appender.console.layout": "org.apache.log4j.PatternLayout",
            "log4j.appender.console.layout.ConversionPattern": "%d{ISO8601} %-5p [%t] %c{2}: %m%n",
            "log4j.logger.org.apache.zookeeper": "WARN",
            # Each process would complain that there is no native Hadoop library, which nothing here needs.
            "log4j.logger.org.apache.hadoop.util.NativeCodeLoader": "ERROR",
        },
    )
