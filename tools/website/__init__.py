"""The documentation site: what MkDocs is told, the pages that are made while it builds, and a check of all links."""
