"""Ping over time, idle and under load (XCo, Figures 8, 18).

    sudo .venv/bin/python mininet/xco_ping.py --virtual --rate 1gbit --plot ping.png
    sudo .venv/bin/python mininet/xco_ping.py --prompt

The options are those of `baton bench xco`; bench/xco/ping.py has the method.
"""

from cli.bench.xco import as_script

if __name__ == "__main__":
    as_script("ping")
