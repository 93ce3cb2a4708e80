"""One long TCP flow against K sequences of short TCP connections (XCo, Figures 7, 17).

    sudo .venv/bin/python mininet/xco_short.py --virtual --rate 1gbit --plot short.png
    sudo .venv/bin/python mininet/xco_short.py --prompt

The options are those of `baton bench xco`; bench/xco/short.py has the method.
"""

from cli.bench.xco import as_script

if __name__ == "__main__":
    as_script("short")
