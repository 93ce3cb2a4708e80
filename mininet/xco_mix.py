"""Five senders, K of them UDP, into one receiver (XCo, Figures 4, 15).

    sudo .venv/bin/python mininet/xco_mix.py --virtual --rate 1gbit --plot mix.png
    sudo .venv/bin/python mininet/xco_mix.py --prompt

The options are those of `baton bench xco`; bench/xco/mix.py has the method.
"""

from cli.bench.xco import as_script

if __name__ == "__main__":
    as_script("mix")
