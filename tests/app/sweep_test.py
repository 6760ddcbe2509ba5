"""attend train with --set.

Run by CTest with ATTEND set to the built command; requires only Python 3.
"""

import unittest

from attend_command import CommandTest, expect_names


class Set(CommandTest):
    def config(self, *arguments):
        return self.succeeds("train", *arguments, "--print-config").stdout

    def refuses_with(self, arguments, *names):
        expect_names(self, self.refuses(arguments), *names)

    def test_sets_the_same_value_as_the_flag(self):
        for key, value, flag in (("lr", "2e-3", ["--lr", "2e-3"]),
                                 ("training.lr", "2e-3", ["--lr", "2e-3"]),
                                 ("threads", "auto", ["--threads", "auto"]),
                                 ("norm", "rms", ["--norm", "rms"]),
                                 ("bias", "off", ["--no-bias"]),
                                 ("model.bias", "false", ["--no-bias"]),
                                 ("qkv_bias", "on", ["--qkv-bias"]),
                                 ("qkv_bias", "true", ["--qkv-bias"]),
                                 ("task", "sort", ["--task", "sort"]),
                                 ("data.length", "5", ["--length", "5"])):
            self.assertEqual(self.config("--set", f"{key}={value}"), self.config(*flag), key)
        self.assertNotEqual(self.config("--set", "lr=2e-3"), self.config())

    def test_is_repeatable_and_leaves_the_recipe_argument_free(self):
        self.assertEqual(self.config("--set", "lr=2e-3", "--set", "num_layers=1", "sort"),
                         self.config("sort", "--lr", "2e-3", "--num-layers", "1"))

    def test_an_unknown_key_suggests_the_nearest(self):
        for key, nearest in (("lrr", "lr"), ("training.lrr", "training.lr"), ("num_layer", "num_layers")):
            message = self.refuses(["train", "--set", f"{key}=1"], "--set", f"'{key}'")
            self.assertTrue(message.endswith(f"'{nearest}'?\n"), message)

    def test_invalid_values(self):
        for setting, *names in (("lr=abc", "--set lr", "abc"), ("lr=", "--set lr"), ("lr=nan", "lr", "nan"),
                                ("lr=11", "lr", "11", "10"), ("threads=0", "--set threads", "0", "auto"),
                                ("norm=batch", "--set norm", "batch", "layer|rms"),
                                ("bias=1", "--set bias", "1", "on", "off"), ("task=", "--set task"),
                                ("lr", "--set", "lr", "KEY=VALUE"), ("=1", "--set", "''"),
                                ("pooling=mean", "--pooling", "language_model")):
            self.refuses_with(["train", "--set", setting], *names)

    def test_a_value_is_set_once(self):
        self.refuses_with(["train", "--lr", "1", "--set", "lr=1"], "--lr", "--set lr")
        self.refuses_with(["train", "--set", "training.lr=1", "--set", "lr=1"], "--set training.lr", "--set lr")

    def test_has_the_same_requirements_as_the_flag(self):
        self.refuses_with(["train", "--set", "momentum=0.5"], "--momentum", "--optimizer muon")
        self.refuses_with(["lr-find", "--set", "max_steps=9"], "--max-steps", "--num-steps")

    def test_attend_lr_find_uses_it(self):
        self.refuses_with(["lr-find", "--set", "embed_dim=10", "--set", "num_heads=3"], "embed_dim", "num_heads")
        self.succeeds("lr-find", "--set", "embed_dim=16", "--set", "batch_size=8", "--num-steps", "3")


if __name__ == "__main__":
    unittest.main()
