"""Programs that the tests of this folder's parent run in virtual time: each prints what it measured as JSON."""
