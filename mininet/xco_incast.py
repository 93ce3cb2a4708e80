"""Incast: N storage servers answer one client with blocks (XCo, Figures 2, 3, 13, 14).

    sudo .venv/bin/python mininet/xco_incast.py --virtual --rate 1gbit --plot incast.png
    sudo .venv/bin/python mininet/xco_incast.py --prompt

The options are those of `baton bench xco`; bench/xco/incast.py has the method.
"""

from cli.bench.xco import as_script

if __name__ == "__main__":
    as_script("incast")
