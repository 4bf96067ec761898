# make          installs what is missing (Debian or Ubuntu packages) and builds the programs into build/
# make train    prepares the default corpus and trains configs/tiny.yaml, on the GPU if there is one
# make test     builds and runs every test this machine can run
# make sanitize memcheck and racecheck over every op's small cases (needs a GPU and the CUDA toolkit)
# make bench    times the ops of the 350M shape and the training step
# make format   clang-format over the tree
BUILD ?= build
JOBS ?= $(shell nproc)

.PHONY: all install train test sanitize bench format clean

all: install $(BUILD)/build.ninja
	@cmake --build $(BUILD) -j $(JOBS) --target programs

install:
	@sh cmake/install_dependencies.sh

$(BUILD)/build.ninja: CMakeLists.txt tests/CMakeLists.txt
	@cmake -S . -B $(BUILD) -G Ninja $(CMAKE_FLAGS)

train: all
	@sh data/default.sh $(BUILD)
	@$(BUILD)/tang-train --config configs/tiny.yaml

test: all
	@cmake --build $(BUILD) -j $(JOBS)
	@sh tests/summarise.sh $(BUILD)

sanitize: all
	@sh tests/sanitize.sh $(BUILD)

bench: all
	@$(BUILD)/tang-bench all
	@$(BUILD)/tang-bench step --config configs/tiny.yaml

format:
	@git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' | xargs clang-format -i

clean:
	@rm -rf $(BUILD)
