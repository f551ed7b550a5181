"""The suites of commands: listings, migrations, Spark jobs."""
