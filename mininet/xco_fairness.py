"""The shares of two UDP and three TCP flows (XCo, Figure 20).

    sudo .venv/bin/python mininet/xco_fairness.py --virtual --rate 1gbit --plot fairness.png
    sudo .venv/bin/python mininet/xco_fairness.py --prompt

The options are those of `baton bench xco`; bench/xco/fairness.py has the method.
"""

from cli.bench.xco import as_script

if __name__ == "__main__":
    as_script("fairness")
