"""The controller: it learns the fabric, decides who may send when, and says so to hosts and switches."""
