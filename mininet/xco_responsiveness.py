"""Two sets of three senders take turns (XCo, Figure 22).

    sudo .venv/bin/python mininet/xco_responsiveness.py --virtual --rate 1gbit --plot responsiveness.png
    sudo .venv/bin/python mininet/xco_responsiveness.py --prompt

The options are those of `baton bench xco`; bench/xco/responsiveness.py has the method.
"""

from cli.bench.xco import as_script

if __name__ == "__main__":
    as_script("responsiveness")
