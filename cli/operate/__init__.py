"""Commands that run and steer the controller: up, down, status, free, coordinate, web, users, keys."""
