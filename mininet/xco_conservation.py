"""Five UDP flows, three of them at 5 % of the link (XCo, Figure 21).

    sudo .venv/bin/python mininet/xco_conservation.py --virtual --rate 1gbit --plot conservation.png
    sudo .venv/bin/python mininet/xco_conservation.py --prompt

The options are those of `baton bench xco`; bench/xco/conservation.py has the method.
"""

from cli.bench.xco import as_script

if __name__ == "__main__":
    as_script("conservation")
