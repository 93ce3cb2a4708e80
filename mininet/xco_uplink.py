"""Thirteen senders through an uplink of ten times their rate (XCo, Figures 5, 16).

    sudo .venv/bin/python mininet/xco_uplink.py --virtual --rate 1gbit --plot uplink.png
    sudo .venv/bin/python mininet/xco_uplink.py --prompt

The options are those of `baton bench xco`; bench/xco/uplink.py has the method.
"""

from cli.bench.xco import as_script

if __name__ == "__main__":
    as_script("uplink")
