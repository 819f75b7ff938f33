"""What HdfsCLI's own tests share, which its source distribution lacks: a client on a directory that is empty before each test, a
file of settings, and a folder to send to and fro."""

import os

from hdfs import InsecureClient, TokenClient


def save_config(config, path=None):
    with open(path or config.path, "w") as file:
        config.write(file)


class _IntegrationTest:
    client = None
    root = "/clients/hdfscli-suite"

    @classmethod
    def setup_class(cls):
        url, token = os.environ["HDFSCLI_TEST_URL"], os.environ.get("HANNO_WEBHDFS_TOKEN")
        if token:
            cls.client = TokenClient(url, token, root=cls.root)
        else:
            cls.client = InsecureClient(url, user=os.environ["HANNO_WEBHDFS_USER"], root=cls.root)

    @classmethod
    def teardown_class(cls):
        cls.client.delete("", recursive=True)

    def setup_method(self):
        self.client.delete("", recursive=True)

    def _read(self, path, **how):
        with self.client.read(path, **how) as reader:
            return reader.read()

    def _write(self, path, data, **how):
        self.client.write(path, data, **how)

    def _exists(self, path):
        return self.client.status(path, strict=False) is not None
