"""Virtual time: a user-mode Linux whose clock stands still while anything computes, built here, and commands run in it."""
