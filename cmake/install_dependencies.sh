#!/bin/sh
# Installs the distribution's packages that tang builds with, and nothing when they are all there.
# A probe is a command, or a file below the include folders; toolchains from elsewhere count too.
set -eu

missing="" wanted=""
have_file() {
  for root in /usr/include /usr/local/include /usr/share /usr/lib; do
    [ -e "$root/$1" ] && return 0
  done
  return 1
}
need() { # package, probe
  command -v "$2" > /dev/null 2>&1 || have_file "$2" || missing="$missing $1"
}
want() { # an optional package: tang builds without it, with less
  command -v "$2" > /dev/null 2>&1 || have_file "$2" || wanted="$wanted $1"
}

need g++ g++
need cmake cmake
need ninja-build ninja
need libfmt-dev fmt/format.h
need libyaml-cpp-dev yaml-cpp/yaml.h
need libcli11-dev CLI/CLI.hpp
need doctest-dev doctest/doctest.h
need nlohmann-json3-dev nlohmann/json.hpp
want libdnnl-dev dnnl.h
want libsentencepiece-dev sentencepiece_processor.h
want bible-kjv bible
want bible-kjv-text bible.data

[ -z "$missing$wanted" ] && exit 0

if ! command -v apt-get > /dev/null 2>&1; then
  [ -z "$missing" ] && exit 0
  echo "tang needs:$missing; this machine has no apt-get, so install their equivalents and run make again" >&2
  exit 3
fi
sudo=""
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo > /dev/null 2>&1 || { echo "installing$missing$wanted needs root: run make as root or install sudo" >&2; exit 3; }
  sudo=sudo
fi
export DEBIAN_FRONTEND=noninteractive
echo "installing:$missing$wanted"
if ! $sudo apt-get update -qq; then
  [ -z "$missing" ] && { echo "no package source reachable: building without$wanted" >&2; exit 0; }
  exit 3
fi
# shellcheck disable=SC2086
[ -z "$missing" ] || $sudo apt-get install -y -qq --no-install-recommends $missing > /dev/null
for package in $wanted; do
  $sudo apt-get install -y -qq --no-install-recommends "$package" > /dev/null 2>&1 || echo "could not install $package: building without it" >&2
done
