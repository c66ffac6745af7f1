# make module   build/module/ngx_chat_module.so for the packaged nginx
# make deb      build/deb/libnginx-mod-http-chat_*.deb for Debian's nginx
# make demo     two racing tools, without and with the module; a chat page
# make test     everything below and the live tests, each once
# make test-all the same with each build over each store, and longer fuzzing
# make bench    measures the module against plain NGINX, Lua, njs and Portkey;
#               writes bench/RESULTS.md, fails if a ratio is a tenth worse
#               than in bench/baseline.json; BENCH='--quick', '--only=frames'
# make unit     the core's unit tests under ASan and UBSan
# make sim      the simulation: SIM_SCHEDULES from SIM_SEED on
# make fuzz     each fuzz target for FUZZ_TIME seconds
# make style    clang-format and the rules of the source tree
# make asan     build/asan/ngx_chat_module.so, for nginx under ASan
# make contract build/contract/ngx_chat_contract_module.so, tests of a store
# make builds   compiles the module against other NGINX (t/builds.sh)
# make clients  the real client libraries; writes docs/compatibility.md
# make test-install   the package in a bare Debian; the Docker images
# make test-debian13  build, package, demo and live tests in a bare Debian 13
# make coverage lines that unit and live tests run, in build/coverage
# make soak     half an hour of load with reloads and an upgrade, each store
# make random   NGINX under ASan by a random schedule, half an hour each store
# make mutants  breaks guarded lines, one by one; a test must fail for each
# make clean    removes build
#
# Each target installs missing Debian packages (t/packages.sh). All output is
# in build/.

SHELL = /bin/bash
CC = gcc
CLANG = clang
CLANG_FORMAT = $(shell command -v clang-format-14 || echo clang-format)
FUZZ_TIME = 60
SIM_SCHEDULES = 50000
SIM_SEED = 1
NGX_SRC = /usr/share/nginx/src

core = $(sort $(shell find shared -name '*.c'))
sources = $(core) $(sort $(shell find ngx_chat_module -name '*.c'))
headers = $(sort $(shell find shared ngx_chat_module -name '*.h'))
unit_dir = build/unit
units = $(patsubst t/unit/%.c,$(unit_dir)/%,$(wildcard t/unit/test_*.c))
fuzzers = $(patsubst t/fuzz/%.c,build/fuzz/%,$(wildcard t/fuzz/fuzz_*.c))
seeds = $(wildcard t/cases t/fuzz/corpus)
laws = $(wildcard t/contract/*.[ch])
formatted = $(sources) $(headers) $(laws) \
            $(wildcard t/unit/*.[ch] t/fuzz/*.[ch] t/sim/*.[ch])
# What the simulation runs of the module, and what it puts around it.
simulated = $(core) $(wildcard ngx_chat_module/request/*.c) \
            $(wildcard ngx_chat_module/base/*.c) \
            ngx_chat_module/store/ngx_chat_ask.c \
            ngx_chat_module/store/ngx_chat_store.c \
            ngx_chat_module/response/ngx_chat_reply.c \
            ngx_chat_module/endpoint/ngx_chat_endpoint.c \
            ngx_chat_module/endpoint/ngx_chat_results.c \
            $(wildcard t/sim/*.c)

warnings = -std=c11 -Wall -Wextra -Werror -Wpointer-arith \
           -Wno-unused-parameter
sanitize = -fsanitize=address,undefined -fno-sanitize-recover=undefined \
           -fno-omit-frame-pointer
# What arenas and the scratch buffer keep would hide from ASan. Each request
# is a long one: those before it get their replies while it is read.
san_opts = -g -O1 $(sanitize) -DCHAT_ARENA_KEPT=0 -DCHAT_BUF_KEPT=0 \
           -DNGX_CHAT_PHASE_LONG=0
# Each module has its own ngx_modules, which ASan reports as an error.
no_globals = --param asan-globals=0

.PHONY: module asan contract deb demo bench test test-all unit sim fuzz \
        style clean demo-packages builds test-install test-debian13 clients \
        clients-packages mutants random
.DELETE_ON_ERROR:


# NGINX builds the module by its own makefile. The configuration is kept until
# the add-on script, the set of sources or the installed nginx changes.
# $(1): folder in build, $(2): compiler options, $(3): linker options,
# $(4): folder of the add-on script, $(5): name of the module
define build_module
	@set -e; out='$(CURDIR)/build/$(1)'; mkdir -p "$$out"; \
	key=$$(echo '$(CURDIR) $(CC) $(2) $(3) $(sources) $(headers) $(laws)'; \
	       cat '$(strip $(4))/config'; dpkg-query -W nginx-dev); \
	if [ "$$key" != "$$(cat "$$out/configured" 2>/dev/null)" ]; then \
	    rm -rf "$$out"; mkdir -p "$$out"; \
	    cd $(NGX_SRC); . ./conf_flags; \
	    bash ./configure --with-cc='$(CC)' --with-cc-opt='$(2)' \
	        --with-ld-opt='$(3)' "$${NGX_CONF_FLAGS[@]}" \
	        --add-dynamic-module='$(strip $(4))' --builddir="$$out" \
	        > "$$out/configure.log" 2>&1 \
	        || { tail -n 4 "$$out/configure.log"; exit 1; }; \
	    echo "$$key" > "$$out/configured"; \
	fi; \
	$(MAKE) -C $(NGX_SRC) -f "$$out/Makefile" -s --no-print-directory \
	    -j"$$(nproc)" modules; \
	echo "build/$(1)/$(5).so"
endef

module:
	@t/packages.sh module
	$(call build_module,module,-g -O2 -fPIC,-fPIC,$(CURDIR),ngx_chat_module)

asan:
	@t/packages.sh module asan
	$(call build_module,asan,-fPIC $(san_opts),-fPIC $(sanitize),\
$(CURDIR),ngx_chat_module)
	$(call build_module,contract-asan,-fPIC $(san_opts) $(no_globals),\
-fPIC $(sanitize),$(CURDIR)/t/contract,ngx_chat_contract_module)

contract: module
	$(call build_module,contract,-g -O2 -fPIC,-fPIC,\
$(CURDIR)/t/contract,ngx_chat_contract_module)

# dpkg-buildpackage writes into the tree and above it, so it gets a copy.
deb:
	@t/packages.sh deb
	@rm -rf build/deb && mkdir -p build/deb/source
	@cp -r --parents CHANGES LICENSE README.md config debian docs shared \
	    ngx_chat_module docker/status.html docker/grafana.json \
	    build/deb/source
	@cd build/deb/source && dpkg-buildpackage -b -us -uc -j"$$(nproc)" \
	    > ../build.log 2>&1 || { tail -n 20 ../build.log; exit 1; }
	@ls build/deb/libnginx-mod-http-chat_*.deb

# Without the packages of the page the demo runs without the page.
demo: module
	@t/packages.sh npm
	@$(MAKE) -s --no-print-directory demo-packages \
	    || echo 'The page of the demo is left out.'
	@node docker/demo.mjs

# Exact versions, from the lock file, for the page and its app.
demo-packages: docker/demo/node_modules/.package-lock.json

docker/demo/node_modules/.package-lock.json: docker/demo/package-lock.json
	@t/packages.sh npm
	npm ci --prefix docker/demo --ignore-scripts --no-audit --no-fund
	@touch $@

# Without Debian's Lua and njs for NGINX their columns stay empty.
bench: module
	@t/packages.sh live npm bench
	@t/packages.sh alternatives || echo 'Lua and njs are left out.'
	@node bench/run.mjs $(BENCH)


unit:
	@t/packages.sh unit
	@$(MAKE) -s --no-print-directory -j"$$(nproc)" $(units)
	@printf '%s\n' $(units) | xargs -P "$$(nproc)" -I{} \
	    sh -c '{ echo {}; {} || exit 1; } > {}.log 2>&1'; \
	code=$$?; cat $(units:=.log); exit $$code

$(unit_dir)/libchat.a: $(core:%.c=$(unit_dir)/%.o)
	rm -f $@ && ar rcs $@ $^

$(unit_dir)/%: t/unit/%.c $(unit_dir)/libchat.a
	@mkdir -p $(@D)
	$(CC) $(warnings) $(san_opts) -MMD -MP -MF $@.d -Ishared -o $@ $< \
	    $(unit_dir)/libchat.a -lcmocka -lyajl -lcrypto -lm

$(unit_dir)/shared/%.o: shared/%.c
	@mkdir -p $(@D)
	$(CC) $(warnings) $(san_opts) -MMD -MP -MF $@.d -Ishared -c -o $@ $<


# Every hundredth schedule runs under ASan, too.
sim:
	@t/packages.sh module
	@$(MAKE) -s --no-print-directory -j"$$(nproc)" build/sim/sim \
	    build/sim-asan/sim
	build/sim/sim --schedules=$(SIM_SCHEDULES) --seed=$(SIM_SEED)
	build/sim-asan/sim --schedules=$$(($(SIM_SCHEDULES) / 100)) \
	    --seed=$(SIM_SEED)

sim_includes = $(addprefix -I$(NGX_SRC)/src/,core event event/modules \
               os/unix http http/modules http/v2) -Ibuild/nginx -Ishared \
               -Ingx_chat_module -It/sim
sim_warnings = -Wall -Wextra -Werror -Wno-unused-parameter

build/sim/sim: $(simulated:%.c=build/sim/%.o)
	$(CC) -o $@ $^ -lcrypto -lm

build/sim-asan/sim: $(simulated:%.c=build/sim-asan/%.o)
	$(CC) $(sanitize) -o $@ $^ -lcrypto -lm

build/sim/%.o: %.c build/nginx/ngx_auto_config.h
	@mkdir -p $(@D)
	$(CC) $(sim_warnings) -g -O2 -MMD -MP -MF $@.d $(sim_includes) -c \
	    -o $@ $<

build/sim-asan/%.o: %.c build/nginx/ngx_auto_config.h
	@mkdir -p $(@D)
	$(CC) $(sim_warnings) $(san_opts) -MMD -MP -MF $@.d $(sim_includes) \
	    -c -o $@ $<

# The configuration of the packaged NGINX.
build/nginx/ngx_auto_config.h:
	@mkdir -p $(@D)
	@cd $(NGX_SRC); . ./conf_flags; \
	bash ./configure --with-cc='$(CC)' "$${NGX_CONF_FLAGS[@]}" \
	    --builddir='$(CURDIR)/$(@D)' > '$(CURDIR)/$(@D)/configure.log'


fuzz:
	@t/packages.sh fuzz
	@$(MAKE) -s --no-print-directory -j"$$(nproc)" $(fuzzers)
	@printf '%s\n' $(fuzzers) | xargs -P "$$(nproc)" -I{} sh -c ' \
	    mkdir -p {}.corpus; \
	    if {} -max_total_time=$(FUZZ_TIME) -timeout=10 \
	        -rss_limit_mb=1024 -artifact_prefix=build/fuzz/ -verbosity=0 \
	        -print_final_stats=1 {}.corpus $(seeds) > {}.log 2>&1; then \
	        echo "ok - {}," \
	            "$$(sed -n "s/.*executed_units: *//p" {}.log) runs"; \
	    else \
	        cat {}.log; echo "not ok - {}"; exit 1; \
	    fi'

build/fuzz/libchat.a: $(core:%.c=build/fuzz/%.o)
	rm -f $@ && ar rcs $@ $^

build/fuzz/%: t/fuzz/%.c build/fuzz/libchat.a
	@mkdir -p $(@D)
	$(CLANG) $(warnings) $(san_opts) -fsanitize=fuzzer -MMD -MP -MF $@.d \
	    -Ishared -o $@ $< build/fuzz/libchat.a -lyajl -lcrypto -lm

build/fuzz/shared/%.o: shared/%.c
	@mkdir -p $(@D)
	$(CLANG) $(warnings) $(san_opts) -fsanitize=fuzzer-no-link \
	    -MMD -MP -MF $@.d -Ishared -c -o $@ $<


# Major versions of clang-format differ, so only the project's own is used.
style:
	@t/packages.sh style
	@case "$$($(CLANG_FORMAT) --version)" in \
	*'version 14.'*) $(CLANG_FORMAT) --dry-run -Werror $(formatted) ;; \
	*) echo 'skipped: the format; it takes clang-format 14, here is' \
	        "$$($(CLANG_FORMAT) --version)" ;; \
	esac
	@node --test t/layout.test.mjs

# Exact versions, from the lock file; no install script runs.
clients-packages: t/clients/node_modules/.package-lock.json demo-packages

t/clients/node_modules/.package-lock.json: t/clients/package-lock.json
	@t/packages.sh clients
	npm ci --prefix t/clients --ignore-scripts --no-audit --no-fund
	@touch $@

clients: module clients-packages
	@t/packages.sh live clients
	@rm -rf build/compatibility
	@node t/run.mjs --every --log=build/test/clients t/clients/*.test.mjs
	@node t/clients/table.mjs

# NGINX sources from the apt mirror, and BUILDS='FOLDER...'.
builds:
	@t/packages.sh live builds
	@t/builds.sh full $(BUILDS)

test-install: deb
	@t/packages.sh docker
	@node t/run.mjs --jobs=1 --log=build/test/install \
	    t/install/{deb,docker}.test.mjs

test-debian13:
	@t/packages.sh install
	@node --test t/install/debian13.test.mjs

# Without the sanitizers; workers that a test kills do not count.
coverage:
	@t/packages.sh module unit live coverage
	@rm -rf build/coverage
	$(call build_module,coverage/module,-g -O0 -fPIC --coverage,\
-fPIC --coverage,$(CURDIR),ngx_chat_module)
	@$(MAKE) -s --no-print-directory unit unit_dir=build/coverage/unit \
	    san_opts='-g -O0 --coverage' \
	    > build/coverage/unit.log || :
	@CHAT_MODULE=$(CURDIR)/build/coverage/module/ngx_chat_module.so \
	    node t/run.mjs --pass=plain,redis --every --jobs=6 \
	    --log=build/coverage/live \
	    t/{barrier,stream,record,store,config}/*.test.mjs || :
	@gcovr --root . --exclude t/ --gcov-ignore-parse-errors \
	    --txt build/coverage/lines.txt --csv build/coverage/lines.csv \
	    --html-details build/coverage/index.html build/coverage \
	    2> build/coverage/gcovr.log
	@awk -F, 'NR > 1 { sub("/.*", "", $$1); n[$$1] += $$2; hit[$$1] += $$3 } \
	    END { for (top in n) printf "%s: %.1f %% of %d lines\n", \
	          top, 100 * hit[top] / n[top], n[top] }' \
	    build/coverage/lines.csv

soak: module
	@t/packages.sh live
	@node t/soak/soak.mjs --store=shm && node t/soak/soak.mjs --store=redis

random: asan
	@t/packages.sh live
	@for store in shm redis; do \
	    CHAT_ASAN=1 node t/soak/random.mjs --store=$$store || exit 1; done

# Breaks each line of t/mutants.json in a copy of the tree; MUTANTS=TEXT
# selects.
mutants:
	@t/packages.sh module unit live
	@node t/mutants.mjs $(MUTANTS)

test test-all:
	@t/packages.sh make module unit fuzz style live clients asan builds \
	    install $(if $(filter test-all,$@),docker bench)
	@t/all.sh $@

clean:
	rm -rf build

-include $(shell find $(unit_dir) build/sim build/sim-asan build/fuzz \
                       -name '*.d' 2>/dev/null)
