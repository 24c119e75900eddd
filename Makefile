# What a person types; everything else is cargo's. Each target does its own set-up.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Tools that cargo builds for us stay in the target folder.
TARGET := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
TOOLS := $(TARGET)/tools
export PATH := $(TOOLS)/bin:$(PATH)

# Seconds per fuzz target, schedules per shuttle test, cases per property test of a long run.
FUZZ_SECONDS ?= 600
SOAK_SCHEDULES ?= 1000000
SOAK_CASES ?= 20000
# Random files that pass between npTDMS and trunkline-tdms, each way, in a long run.
SOAK_FILES ?= 10000
# How often a recording is killed in a long run.
SOAK_KILLS ?= 200
# How often Python programs open and close everything in a long run.
SOAK_CYCLES ?= 100000
# How often each program that polls runs in the rig, on a quiet and on a busy machine.
RIG_POLLING ?= 200
# Simulated hours with faults, and cycles of the chaos run, of `make test` and of a long run.
SIM_HOURS ?= 50
SIM_CYCLES ?= 10000
SOAK_HOURS ?= 1000

# Tests of interleavings live in tests/loom*.rs and tests/shuttle*.rs of their crate.
LOOM_TESTS := $(wildcard crates/*/tests/loom*.rs)
SHUTTLE_TESTS := $(wildcard crates/*/tests/shuttle*.rs)
# Crates with such tests inside, named shuttle_*.
SHUTTLE_CRATES := trunkline-net

# $(call step,NAME,COMMAND): says what runs, and afterwards how long it took. In brackets, or the
# shell would not stop where the first of two commands joined by && fails.
define step
	@printf '\n== %s\n' '$(1)'; start=$$(date +%s); ( $(2) ); \
	printf '== %s: %s s\n' '$(1)' $$(( $$(date +%s) - start ))
endef

# $(call two_at_a_time,COMMAND): runs COMMAND for each line of the input, in place of {}. Each has one busy thread
# for most of the time. The output of each stays together.
define two_at_a_time
	xargs -P 2 -I {} bash -c 'output=$$($(1) 2>&1); status=$$?; printf "%s\n" "$$output"; exit $$status'
endef

# $(call of_files,FILES): the options of cargo that select the packages of test files.
of_files = $(addprefix -p ,$(sort $(foreach file,$(1),$(word 2,$(subst /, ,$(file))))))

# $(call run_under,CFG,FILES): runs test files built with --cfg CFG, in a target folder of their own.
define run_under
	export CARGO_TARGET_DIR='$(TARGET)/$(1)' CARGO_PROFILE_DEV_OPT_LEVEL=2 RUSTFLAGS='--cfg $(1)'; \
	cargo test $(call of_files,$(2)) --no-run $(addprefix --test ,$(basename $(notdir $(2)))) && \
		printf '%s\n' $(basename $(notdir $(2))) | \
		$(call two_at_a_time,cargo test $(call of_files,$(2)) --test {})
endef

# $(call run_inside,CFG,CRATES): runs the tests inside crates that are named after CFG.
define run_inside
	for package in $(2); do \
		CARGO_TARGET_DIR='$(TARGET)/$(1)' CARGO_PROFILE_DEV_OPT_LEVEL=2 RUSTFLAGS='--cfg $(1)' \
			cargo test -p "$$package" --lib $(1)_; \
	done
endef

# The workspace of the measurements. Its tests share the compiled dependencies of the main workspace.
BENCH := --manifest-path bench/Cargo.toml --target-dir '$(TARGET)'

# Gives the build with planted bugs the dependencies that the simulation has compiled. Crates of this workspace are
# left out, because they differ.
define share_dependencies
	[ -d '$(TARGET)/planted' ] || { mkdir '$(TARGET)/planted' && cp -al '$(TARGET)/sim' '$(TARGET)/planted/sim' && \
		find '$(TARGET)/planted/sim' \( -name '*trunkline*' -o -name .cargo-lock \) -prune -exec rm -rf {} +; }
endef

# The service, the dependencies, and the Debian package if there is one. What needs systemd is skipped without it.
PACKAGING := python3 -m unittest discover --start-directory packaging/tests

# The Python package: its generated files, its types, and its tests with the program that the tests have built, and with
# examples in other languages. The build of the whole workspace takes the compiled dependencies of the tests.
PYTHON := $(TARGET)/python
PYTHON_PACKAGE := crates/trunkline-py
define PYTHON_TESTS
	cargo build --workspace --lib --bins \
		--example stream --example setpoint --example monitor --example io_server && \
	ln -sf '$(TARGET)/debug/lib_trunkline.so' $(PYTHON_PACKAGE)/python/trunkline/_trunkline.abi3.so && \
	$(PYTHON)/bin/python $(PYTHON_PACKAGE)/generate.py --check && \
	$(PYTHON)/bin/python $(PYTHON_PACKAGE)/reference.py --check && \
	(cd $(PYTHON_PACKAGE) && '$(PYTHON)/bin/pyright' -p . --pythonpath '$(PYTHON)/bin/python') && \
	TRUNKLINE_PROGRAM='$(TARGET)/debug/trunkline' PYTHONPATH=$(PYTHON_PACKAGE)/python \
		'$(PYTHON)/bin/python' -X dev -m pytest -n 4 $(PYTHON_PACKAGE)/tests
endef

# $(call simulate,HOURS): builds the simulator, and runs its simulations.
define simulate
	cargo build --quiet --profile sim -p trunkline-sim && printf '%s\n' '--hours $(1)' '--streams --hours $(1)' \
		'--alarms --hours $(1)' '--history --hours $(1)' '--chaos $(SIM_CYCLES)' | \
		$(call two_at_a_time,"$(TARGET)/sim/trunkline-sim" {})
endef

.PHONY: help
help: ## Lists the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

.PHONY: demo
demo: toolchain ## Builds and starts the demo: a simulated plant, and this machine's own readings
	@echo 'Building trunkline; the first time takes a few minutes.'
	@cargo build --release --bin trunkline
	@exec '$(TARGET)/release/trunkline' demo

.PHONY: check
check: toolchain ## Format, layers, lints, unit tests and golden vectors: minutes, before each commit
	$(call step,format,cargo fmt --all --check && cargo fmt --all --manifest-path bench/Cargo.toml --check)
	$(call step,tree,cargo xtask layers && cargo xtask tidy && cargo xtask behaviours)
	$(call step,clippy,cargo clippy --workspace --all-targets -- -D warnings)
	$(call step,unit,cargo test --workspace --lib --bins)
	$(call step,vectors,cargo test -p trunkline-types -p trunkline-proto --test vectors --test frames)

# The pages are checked with the program that the tests have built.
.PHONY: test
test: toolchain nptdms python-tools ## Everything that must hold before a change goes in
	$(call step,format,cargo fmt --all --check && cargo fmt --all --manifest-path bench/Cargo.toml --check)
	$(call step,layers,cargo xtask layers)
	$(call step,tidy,cargo xtask tidy)
	$(call step,behaviours,cargo xtask behaviours)
	$(call step,clippy,cargo clippy --workspace --all-targets -- -D warnings)
	$(call step,tests,RUST_TEST_THREADS=4 cargo test --workspace --no-fail-fast)
	$(call step,bench,cargo clippy --workspace --all-targets $(BENCH) -- -D warnings && \
		cargo test --workspace --no-fail-fast $(BENCH) && \
		python3 -m unittest discover --start-directory bench/tests && bench/report.py --check)
	$(call step,python,$(PYTHON_TESTS))
	$(call step,instructions,bench/instructions)
	$(call step,simulation,$(call simulate,$(SIM_HOURS)))
	$(call step,planted,$(share_dependencies) && cargo xtask mutants && cd target/mutants/tree && \
		CARGO_TARGET_DIR='$(TARGET)/planted' cargo test --profile sim -p trunkline-sim --features planted \
			--test planted --test planted_history)
	$(call step,docs,cargo xtask docs --check --require-binary)
	$(call step,packaging,$(PACKAGING))
	$(call step,rustdoc,RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps)
	$(call step,loom,$(call run_under,loom,$(LOOM_TESTS)))
	$(call step,shuttle,$(call run_under,shuttle,$(SHUTTLE_TESTS)); \
		$(call run_inside,shuttle,$(SHUTTLE_CRATES)))

.PHONY: soak
soak: toolchain nptdms python-tools ## Long runs: many more schedules and cases than `make test`
	$(call step,loom,$(call run_under,loom,$(LOOM_TESTS)))
	$(call step,shuttle,export SHUTTLE_SCHEDULES=$(SOAK_SCHEDULES); \
		$(call run_under,shuttle,$(SHUTTLE_TESTS)))
	$(call step,simulation,$(call simulate,$(SOAK_HOURS)))
	$(call step,properties,PROPTEST_CASES=$(SOAK_CASES) cargo test --workspace --no-fail-fast)
	$(call step,nptdms,NPTDMS_FILES=$(SOAK_FILES) cargo test --release -p trunkline-tdms --test nptdms)
	$(call step,kills,RECORD_KILLS=$(SOAK_KILLS) cargo test --release -p trunkline-record --test files killed)
	$(call step,writes,WRITE_KILLS=$(SOAK_KILLS) cargo test --release -p trunkline-cli --test rig late_writes)
	$(call step,python cycles,cargo build --workspace && \
		ln -sf '$(TARGET)/debug/lib_trunkline.so' $(PYTHON_PACKAGE)/python/trunkline/_trunkline.abi3.so && \
		SOAK_CYCLES=$(SOAK_CYCLES) PYTHONPATH=$(PYTHON_PACKAGE)/python \
			'$(PYTHON)/bin/python' -m pytest $(PYTHON_PACKAGE)/tests/test_cycles.py)
	$(call step,boiler,cargo run --release -p trunkline-boiler --example boiler_year)

.PHONY: fuzz
fuzz: toolchain nightly ## Every fuzz target for FUZZ_SECONDS (600)
	@FUZZ_SECONDS=$(FUZZ_SECONDS) fuzz/run

.PHONY: rig
rig: toolchain ## Faults with real processes at full length; writes docs/reference/rig.md
	$(call step,rig,TRUNKLINE_RIG=full TRUNKLINE_RIG_PAGE="$(CURDIR)/docs/reference/rig.md" \
		cargo test --release -p trunkline-cli --test rig -- --test-threads 1)
	$(call step,polling,POLLING_RUNS=$(RIG_POLLING) cargo test --release -p trunkline --test polling \
		-- --nocapture)
	$(call step,killed streams,TRUNKLINE_KILLS=200 cargo test --release -p trunkline-stream --test killed)

.PHONY: bench
bench: toolchain ## The measurements of bench/, each beside its limit; with other systems: bench/run --peers
	@bench/run

.PHONY: docs
docs: toolchain ## The book in docs/book and the Rust reference in the target folder
	@command -v mdbook >/dev/null || cargo install mdbook --locked --root '$(TOOLS)'
	@cargo xtask behaviours --page
	@mdbook build docs
	@RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps
	@echo 'docs/book/index.html'

.PHONY: fmt
fmt: toolchain ## Formats the source and writes the generated pages
	@cargo fmt --all && cargo fmt --all --manifest-path bench/Cargo.toml
	@cargo build --bin trunkline && cargo xtask docs --require-binary

.PHONY: picture
picture: toolchain ## The picture of README, made by running commands against the demo
	@cargo build --bin trunkline && cargo xtask picture

.PHONY: install
install: toolchain ## Installs the commands trunkline and tl for the current user
	@cargo install --path crates/trunkline-cli --locked

.PHONY: python
python: toolchain python-tools ## The tests of the Python package
	@$(PYTHON_TESTS)

.PHONY: wheel
wheel: toolchain ## The Python package with the program, in target/wheels
	@packaging/python/build

.PHONY: packaging
packaging: toolchain ## Tests of the service, the dependencies, and the Debian package if it is built
	@cargo build --bin trunkline
	@$(PACKAGING)

.PHONY: deb
deb: toolchain ## The Debian package, in target/package
	@packaging/build-release
	@packaging/deb/build '$(TARGET)/dist/trunkline' '$(TARGET)/package'

.PHONY: sbom
sbom: toolchain ## The bill of materials in CycloneDX, in target/sbom.cdx.json
	@cargo xtask sbom

.PHONY: deny
deny: toolchain ## Known vulnerabilities, licences, bans and sources of the dependencies, by deny.toml
	@command -v cargo-deny >/dev/null || cargo install cargo-deny --locked --root '$(TOOLS)'
	@cargo deny check

# What the other targets need: Rust with its formatter and linter, and a linker.
.PHONY: toolchain
toolchain:
	@command -v cargo >/dev/null || { \
		echo 'Rust is not installed. Get it from https://rustup.rs, open a new terminal, try again.' >&2; \
		exit 1; }
	@command -v cc >/dev/null || { \
		echo 'There is no C compiler, which Rust links with (Debian: apt install build-essential).' >&2; \
		exit 1; }
	@cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
	@cargo clippy --version >/dev/null 2>&1 || rustup component add clippy

# npTDMS, which judges the TDMS files; pytest, because its own tests' files are made with it.
.PHONY: nptdms
nptdms:
	@[ -e '$(TARGET)/nptdms/ready' ] || { \
		command -v python3 >/dev/null || { \
			echo 'There is no Python, which the tests of TDMS files need (Debian: python3-venv).' >&2; \
			exit 1; }; \
		python3 -m venv '$(TARGET)/nptdms'; \
		'$(TARGET)/nptdms/bin/pip' install --quiet --disable-pip-version-check \
			npTDMS==1.13.0 numpy==2.4.6 pytest; \
		touch '$(TARGET)/nptdms/ready'; }

# What the tests of the Python package need.
.PHONY: python-tools
python-tools:
	@[ '$(PYTHON)/ready' -nt $(PYTHON_PACKAGE)/requirements.txt ] || { \
		python3 -m venv '$(PYTHON)'; \
		'$(PYTHON)/bin/pip' install --quiet --disable-pip-version-check -r $(PYTHON_PACKAGE)/requirements.txt; \
		touch '$(PYTHON)/ready'; }

.PHONY: nightly
nightly:
	@rustup toolchain list | grep -q '^nightly' || rustup toolchain install nightly --profile minimal
