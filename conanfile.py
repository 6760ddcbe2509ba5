"""Conan recipe of the libraries.

    LIBTORCH=/path/to/libtorch conan create . --test-folder packaging/conan

LibTorch and the Debian packages of docs/install.md are those of the machine, so the package is for this machine.
Consumers call find_package(attend), and set Torch_DIR to the folder of the same LibTorch's TorchConfig.cmake.
"""

import os
import pathlib
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeToolchain

TORCH_CMAKE = pathlib.Path(os.environ.get("LIBTORCH", "")).absolute() / "share/cmake/Torch"


class Attend(ConanFile):
    name = "attend"
    description = "The transformer library that LibTorch lacks"
    license = "MIT"
    settings = "os", "compiler", "build_type", "arch"
    options = {"shared": [True, False], "components": ["ANY"], "libtorch": ["ANY"]}
    default_options = {"shared": False, "components": "nn,io,export", "libtorch": ""}
    exports_sources = "CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "src/*"

    def set_version(self):
        header = pathlib.Path(self.recipe_folder, "include/attend/version.h").read_text()
        self.version = re.search(r'ATTEND_VERSION "(.*)"', header)[1]

    def config_options(self):
        # The id of the package contains the options, so packages for two versions of LibTorch have two ids.
        version = TORCH_CMAKE / "TorchConfigVersion.cmake"
        if version.is_file():
            self.options.libtorch = re.search(r'PACKAGE_VERSION "(.*?)"', version.read_text())[1]

    def validate_build(self):
        if not self.options.libtorch:
            raise ConanInvalidConfiguration(f"LIBTORCH: found no {TORCH_CMAKE}, expected the folder of a LibTorch")

    def generate(self):
        toolchain = CMakeToolchain(self, generator="Ninja")
        toolchain.cache_variables["ATTEND_COMPONENTS"] = str(self.options.components).replace(",", ";")
        toolchain.cache_variables["Torch_DIR"] = str(TORCH_CMAKE)
        toolchain.cache_variables["CMAKE_UNITY_BUILD"] = True
        for programs in ("APP", "TESTS", "EXAMPLES"):
            toolchain.cache_variables[f"ATTEND_BUILD_{programs}"] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        cmake = CMake(self)
        for component in ("attend_dev", "attend_runtime"):  # without a link to this machine's LibTorch
            cmake.install(component=component)

    def package_info(self):
        # Consumers read the package's own attendConfig.cmake.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/attend"]
