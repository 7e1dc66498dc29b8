# The libraries that prestage stands on; why each: docs/design/0001-dependencies.md.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(URING REQUIRED IMPORTED_TARGET liburing)
pkg_check_modules(EDIT REQUIRED IMPORTED_TARGET libedit)
# Without it, ranks are processes of one host only.
pkg_check_modules(OMPI IMPORTED_TARGET ompi-c)
if(OMPI_FOUND)
  target_compile_definitions(PkgConfig::OMPI INTERFACE PS_HAVE_MPI)
  set(ps_mpi PkgConfig::OMPI)
  set(ps_pc_mpi "-L${OMPI_LIBDIR} -lmpi")
endif()

add_library(ps_flags INTERFACE)
target_compile_features(ps_flags INTERFACE c_std_11)
target_compile_definitions(ps_flags INTERFACE _GNU_SOURCE PS_VERSION="${PROJECT_VERSION}")
# No contraction, no fast math: tokens must not depend on the compiler's mood (ARCHITECTURE.md, same bits).
target_compile_options(ps_flags INTERFACE
  -ffp-contract=off -fno-math-errno -fno-trapping-math -fvisibility=hidden
  -Wall -Wextra -Werror -Wshadow -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes
  -Wwrite-strings -Wcast-qual -Wformat=2 -Wvla -Wundef -Wno-unused-parameter)
if(CMAKE_C_COMPILER_ID STREQUAL GNU)
  target_compile_options(ps_flags INTERFACE -Wno-format-truncation) # cutting a message is meant
endif()
if(PS_SANITIZE)
  target_compile_options(ps_flags INTERFACE -fsanitize=${PS_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(ps_flags INTERFACE -fsanitize=${PS_SANITIZE})
  if(PS_SANITIZE MATCHES undefined)
    target_compile_options(ps_flags INTERFACE -fno-sanitize-recover=undefined)
    target_link_options(ps_flags INTERFACE -fno-sanitize-recover=undefined)
  endif()
endif()
if(PS_FUZZ)
  target_compile_options(ps_flags INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(ps_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
