# Short names for what CMake presets, ctest and scripts/ do. `make help` lists them.
# JOBS=N limits parallel compiling and testing; FUZZ_SECONDS=N is the time of each fuzz target.
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
PREFIX ?= /usr/local

DEPS := scripts/install-deps.sh
BUILD := cmake --build -j $(JOBS) --preset
CTEST := ctest --output-on-failure --no-tests=error -j $(JOBS)
FORMATTED = $(shell find src test bench include examples -name '*.[ch]' -o -name '*.inc')

.DEFAULT_GOAL := release
.PHONY: release demo test test-debug test-models tsan lint format fuzz bench paper install clean help

release: ## build the prestage binary (build/release/prestage)
	@$(DEPS) build
	@cmake --preset release
	@$(BUILD) release --target prestage

demo: ## fetch a small model (98 MB) and answer a prompt with it
	@scripts/demo.sh

# Both builds run everything but the entries labelled long; lints look at the source once, in the release
# build, and skip where their tool is missing.
test: test-debug ## build with and without sanitizers, and run the tests
	@$(DEPS) test
	@cmake --preset release
	@$(BUILD) release
	@$(CTEST) --test-dir build/release -LE '^long$$'

test-debug: # with address and undefined sanitizers
	@$(DEPS) test
	@cmake --preset debug
	@$(BUILD) debug
	@$(CTEST) --test-dir build/debug -LE '^(long|lint)$$'

test-models: ## fetch all small models (850 MB) and run the tests that need them
	@$(DEPS) test models
	@scripts/fetch-models.py smollm2 gemma3 qwen2.5-coder
	@cmake --preset release
	@$(BUILD) release
	@$(CTEST) --test-dir build/release -L '^model$$'

tsan: ## build with the thread sanitizer and run the tests that start threads
	@$(DEPS) test
	@cmake --preset tsan
	@$(BUILD) tsan
	@$(CTEST) --test-dir build/tsan -R '^((base|trace|io|comm|exec|session|engine|serve)\.|cli\.explore_run)' -LE '^(model|long)$$'

lint: ## format, clang-tidy, cppcheck, layers, headers, symbols, words
	@$(DEPS) build lint
	@cmake --preset release
	@$(BUILD) release
	@$(CTEST) --test-dir build/release -L '^lint$$'

format: ## format every C file in place
	@$(DEPS) lint
	@clang-format -i $(FORMATTED)

fuzz: ## run each fuzz target for FUZZ_SECONDS (clang)
	@$(DEPS) fuzz
	@cmake --preset fuzz
	@$(BUILD) fuzz --target fuzzers
	@scripts/fuzz.sh build/fuzz/test/fuzz $(FUZZ_SECONDS)

bench: ## build and run the benchmarks
	@$(DEPS) bench
	@cmake --preset release
	@$(BUILD) release
	@for program in build/release/bench/bench_*; do echo "+ $$program"; "$$program" || exit 1; done

paper: release ## play what papers say of other machines, and compare (build/paper.html)
	@build/release/prestage explore --all --force -o build/paper
	@echo "build/paper.html, build/paper.json and build/paper-*.csv"

install: release ## install below PREFIX (default /usr/local); DESTDIR is obeyed
	@$(BUILD) release --target prestage prestage_static
	@cmake --install build/release --prefix $(PREFIX)

clean: ## remove build/{release,debug,tsan,fuzz}
	@rm -rf build/release build/debug build/tsan build/fuzz

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 16
