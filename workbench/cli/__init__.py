"""The ``workbench`` command: one file per subcommand."""
