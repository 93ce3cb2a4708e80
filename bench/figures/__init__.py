"""Every published figure that Baton reproduces: which there are, running them, and one report of all: `make figures`."""
