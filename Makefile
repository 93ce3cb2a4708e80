# `make demo` and `make test` do all their own set-up; `make setup` alone is idempotent and quick the second time.
PYTHON      := /usr/bin/python3
VENV        := .venv
BIN         := $(VENV)/bin
PACKAGES    := agents bench cli controller ebpf emulation protocol simulation topology webui
APT         := libseccomp2 mininet openvswitch-switch redis-server iperf3 iputils-ping iproute2 ethtool tcpdump tshark \
               clang llvm libbpf-dev bpftool gcc make libc6-dev python3-venv util-linux procps openssl chromium snmpd snmp
DEMO_FLAGS  ?=
PYTEST      := $(BIN)/python -m pytest
PIP         := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile

.PHONY: setup demo test check coverage lint unit emulation-tests first-box second-box third-box fuzz bench clean test-stock-kernel virtual test-virtual figures simulation

setup: $(VENV)/.ready

$(VENV)/.apt: Makefile
	@missing=""; for package in $(APT); do dpkg -s $$package >/dev/null 2>&1 || missing="$$missing $$package"; done; \
	if [ -n "$$missing" ]; then echo "installing:$$missing"; apt-get update -qq && \
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; fi
	@test -x $(BIN)/python || $(PYTHON) -m venv --system-site-packages $(VENV)
	@touch $@

# Ryu's source distribution builds with an older setuptools only; our own ryu-manager script replaces Ryu's.
# pip compiles modules one after the other, their tests, too, which takes a quarter of a minute more; what nobody can
# compile, nobody imports.
$(VENV)/.ready: $(VENV)/.apt requirements.txt build-constraints.txt setup.py
	@PIP_CONSTRAINT=$(CURDIR)/build-constraints.txt $(PIP) "$$(grep '^ryu==' requirements.txt)"
	@$(PIP) -r requirements.txt
	@$(BIN)/python -m compileall -q -j 0 -x '/tests/' $(VENV)/lib >/dev/null 2>&1 || true
	@$(PIP) --no-deps --force-reinstall --editable .
	@$(BIN)/python -m compileall -q $(PACKAGES)
	@$(BIN)/python -m ebpf.build >/dev/null || echo "programs in C not built: see baton doctor"
	@touch $@

demo: setup
	$(BIN)/baton demo --json results/demo.json --plot results/demo.png $(DEMO_FLAGS)

BATON_TESTS_BEGAN := $(or $(BATON_TESTS_BEGAN),$(shell date +%s))
export BATON_TESTS_BEGAN
test: lint unit emulation-tests

# The inner loop: what needs neither root nor a fabric.
check: lint
	$(PYTEST) -n 2 tests/unit

lint: setup
	$(BIN)/ruff check .
	$(BIN)/mypy --strict $(PACKAGES)

unit: setup
	$(PYTEST) -n 2 tests/unit tests/fuzz

# Which lines the unit tests reach; not part of `make test`, since with it the policies' tests take nearly twice as long.
coverage: setup
	$(PYTEST) -n 2 tests/unit --cov=protocol --cov=topology --cov=controller --cov=agents --cov-report=term

# What depends on no timing runs in three boxes at once, on both processors; all else needs the machine for itself, and comes first.
# That may have other work to do: a test on real traffic that fails is tried once more, and the closing lines say how many were
# ("rerun", each named by RERUN). The closing lines are four; if a box fails, what failed comes after them.
FIRST_BOX   := agents/addresses/test_addresses agents/addresses/test_directory agents/kernel/test_capabilities \
               agents/priorities/test_mark agents/priorities/test_tagger agents/priorities/test_mcp \
               agents/queues/test_agent_queues agents/queues/test_killed_agents controller/openflow/test_openflow_tls \
               controller/openflow/test_openflow_hostile controller/openflow/test_openflow_liars \
               controller/spanning_tree/test_tree_sources keys/test_key_rotation keys/test_one_host_taken_over \
               stack/test_coflow stack/test_demo test_failures test_inconclusive \
               webui/test_dashboard webui/test_dashboard_emulated webui/test_dashboard_format webui/test_web_audit \
               webui/hostile/test_web_hostile webui/large/test_dashboard_large
SECOND_BOX  := agents/host_control/test_pfc agents/kernel/test_kernel_probe agents/queues/test_netlink \
               agents/queues/test_tenants agents/reflex/test_reflex_conditions controller/openflow/test_openflow_ring \
               controller/spanning_tree/test_snmp_tree controller/spanning_tree/test_tree_watch controller/store/test_store \
               controller/store/test_store_lease controller/store/test_store_restarts controller/store/test_store_parted \
               controller/store/test_recorded_schema controller/store/test_capacities_parted \
               controller/store/test_unreadable_documents controller/switch_queues/test_queue_keeper \
               controller/switch_queues/test_switch_queues fabric/test_emulation_box stack/test_drift stack/test_pfc_commands \
               stack/test_queue_commands webui/test_web_metrics webui/test_web_rest webui/test_web_server
THIRD_BOX   := agents/guests/test_guest_shapes agents/guests/test_guests_of_an_agent agents/guests/test_guests_tagged \
               agents/kernel/test_snapshot_holes agents/queues/test_queues_of_others agents/queues/test_released \
               cli/test_coflow cli/test_feed cli/test_host cli/test_key cli/test_queue cli/test_status cli/test_web \
               controller/store/test_snapshot_changes controller/store/test_store_guarded \
               controller/supervision/test_rights controller/supervision/test_service_logs \
               controller/supervision/test_supervisor fabric/test_emulation_fabric stack/test_guests_in_status webui/large/test_web_pages \
               webui/page/test_events webui/page/test_navigation webui/page/test_old_and_long webui/test_fabric_tiers \
               webui/test_stream_resumed webui/test_web_supervised
IN_A_BOX    := $(BIN)/python -m emulation.box --readable -- $(CURDIR)/$(PYTEST) --reruns 1 -raR
emulation-tests: export BATON_TESTS_FAILED = $(CURDIR)/$(VENV)/.failed
emulation-tests: setup
	@rm -f $(VENV)/.failed
	$(IN_A_BOX) tests/emulation $(patsubst %,--ignore=tests/emulation/%.py,$(FIRST_BOX) $(SECOND_BOX) $(THIRD_BOX))
	@$(MAKE) --no-print-directory -k -j 3 -O first-box second-box third-box || { cat $(VENV)/.failed 2>/dev/null; exit 1; }

first-box: BOXED = $(FIRST_BOX)
second-box: BOXED = $(SECOND_BOX)
third-box: BOXED = $(THIRD_BOX)
first-box second-box third-box: setup
	$(IN_A_BOX) $(patsubst %,tests/emulation/%.py,$(BOXED))

# Virtual time: a kernel of its own, built once on a machine and kept in the user's cache; five to ten minutes on two cores.
VIRTUAL_APT := bc binutils bison dwarves flex gcc libelf-dev make patch xz-utils
virtual: setup
	@missing=""; for package in $(VIRTUAL_APT); do dpkg -s $$package >/dev/null 2>&1 || missing="$$missing $$package"; done; \
	if [ -n "$$missing" ]; then echo "installing:$$missing"; apt-get update -qq && \
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; fi
	@$(BIN)/python -m emulation.virtual.kernel

# Every published figure measured again; FIGURES_FLAGS may name some, or say --again. Ctrl-C keeps what is done.
FIGURES_FLAGS ?=
figures: virtual
	$(BIN)/baton bench figures $(FIGURES_FLAGS)

test-virtual: virtual
	$(PYTEST) -n 2 --dist worksteal -raR tests/virtual

# ns-3 for `baton simulate`, which nothing else needs; --no-deps: the Python bindings, which are not used, need a compiler of their own.
simulation: setup
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps 'ns3>=3.44,<3.45'
	@missing=""; for package in g++; do dpkg -s $$package >/dev/null 2>&1 || missing="$$missing $$package"; done; \
	if [ -n "$$missing" ]; then echo "installing:$$missing"; apt-get update -qq && \
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; fi
	@$(BIN)/python -m simulation.toolchain

# What `make test` draws the same each time is drawn anew here, so many times.
DRAWS ?= 5
fuzz: setup
	for each in $$(seq $(DRAWS)); do BATON_DRAWS=anew $(PYTEST) -n 2 -m hypothesis tests/unit tests/fuzz || exit; done
	$(BIN)/baton bench fuzz --seconds 60 --json results/fuzz.json

# Not part of `make test`: the kernel's tests on Debian's own kernel, under QEMU without KVM. It is unpacked, not installed.
STOCK       := $(VENV)/stock
STOCK_APT   := qemu-system-x86 busybox-static kmod e2fsprogs
STOCK_FLAGS ?=

$(STOCK)/.ready: requirements.txt | $(VENV)/.apt
	@apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(STOCK_APT)
	@rm -rf $(STOCK) && $(PYTHON) -m venv $(STOCK) && mkdir $(STOCK)/kernel
	@$(STOCK)/bin/pip install --quiet --disable-pip-version-check 'virtme-ng~=1.42'
	@$(STOCK)/bin/pip install --quiet --disable-pip-version-check --target $(STOCK)/site $$(grep -E '^(pytest|pytest-timeout|cryptography|orjson)>' requirements.txt)
	@package=$$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: //p' | head -1) && cd $(STOCK) && \
	apt-get download -qq -o APT::Sandbox::User=root $${package:-linux-image-amd64} && dpkg-deb -x *.deb kernel && rm *.deb
	@touch $@

test-stock-kernel: setup $(STOCK)/.ready
	$(BIN)/python tests/stock_kernel/boot.py $(STOCK_FLAGS)

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis results
