// The table of fields.
#include "lib/train/run_config.h"

namespace tang {

namespace {

using Field = ConfigField;

Field at_least(double low, Field field) { return field.low = low, field; }
Field above(double low, Field field) { return field.low = low, field.above_low = true, field; }
/// In [0, 1).
Field fraction(Field field) { return field.low = 0, field.high = 1, field.below_high = true, field; }
Field or_word(std::string word, double value, Field field) {
  return field.word = std::move(word), field.word_value = value, field;
}
Field one_of(std::vector<std::string> choices, Field field) {
  return field.choices = std::move(choices), field;
}
Field required(Field field) { return field.required = true, field; }

#define TANG_FIELD(type, key, member, about)                                                     \
  Field {                                                                                        \
    key, static_cast<Field::Access<type>>([](RunConfig& c) -> type& { return c.member; }), about \
  }
#define TANG_INTEGER(key, about) TANG_FIELD(int64_t, #key, key, about)
#define TANG_NUMBER(key, about) TANG_FIELD(double, #key, key, about)
#define TANG_SWITCH(key, about) TANG_FIELD(bool, #key, key, about)
#define TANG_TEXT(key, about) TANG_FIELD(std::string, #key, key, about)
#define TANG_PATHS(key, about) TANG_FIELD(std::vector<std::string>, #key, key, about)

std::vector<Field> model_fields() {
  return {
      required(at_least(1, TANG_INTEGER(model.dim, "width of the residual stream"))),
      required(at_least(1, TANG_INTEGER(model.n_layers, "number of blocks"))),
      required(at_least(1, TANG_INTEGER(model.n_heads, "query heads"))),
      or_word("auto", 0,
              at_least(1, TANG_INTEGER(model.n_kv_heads,
                                       "key and value heads; divides n_heads; auto: as many as n_heads"))),
      or_word(
          "auto", 0,
          at_least(2, TANG_INTEGER(model.head_dim, "size of a head, even, up to 256; auto: dim / n_heads"))),
      required(at_least(1, TANG_INTEGER(model.ffn_dim, "width inside the feed-forward"))),
      required(at_least(1, TANG_INTEGER(model.vocab_size, "token ids are below it"))),
      TANG_TEXT(model.activation,
                "the feed-forward computes act(gate) * up: silu, gelu, gelu_tanh, relu2, or an expression in "
                "x such as `x * sigmoid(1.702 * x)` (docs/EXPRESSIONS.md)"),
      above(0, TANG_NUMBER(model.rope_theta, "base of the rotation frequencies")),
      above(0, TANG_NUMBER(model.norm_eps, "added to the mean square in RMSNorm")),
      TANG_SWITCH(model.tie_embeddings, "the head is the embedding table"),
      at_least(0, TANG_NUMBER(model.init_std,
                              "standard deviation of fresh weights; projections onto the residual stream "
                              "get it divided by sqrt(2 n_layers)")),
      TANG_FIELD(std::string, "model.init", model_init,
                 "a checkpoint folder to take the weights from (its shape must be this one's)"),
  };
}

std::vector<Field> data_fields() {
  return {
      required(TANG_PATHS(data.train, "token shards: a file, folder, glob or list of them")),
      TANG_PATHS(data.val, "token shards for the validation loss; not opened while eval.every is 0"),
      TANG_TEXT(data.tokenizer,
                "tokenizer file, copied into every checkpoint; empty: the one that "
                "dataset.json beside the shards names"),
      required(at_least(1, TANG_INTEGER(data.seq_len, "tokens of a sequence"))),
      TANG_SWITCH(data.shuffle, "one seeded permutation of the sequences per epoch; false: file order"),
      or_word("none", -1, at_least(0, TANG_INTEGER(data.pad_id, "targets with this id have no loss"))),
  };
}

std::vector<Field> train_fields() {
  return {
      TANG_TEXT(train.device, "auto, cpu, cuda or cuda:N; auto: the first GPU, else the CPU"),
      one_of({"bf16", "f32", "tf32"},
             TANG_TEXT(train.precision,
                       "bf16: bf16 weights and activations over f32 masters; f32: strict; tf32: f32 with "
                       "products of 10-bit inputs on CUDA (the CPU computes strict f32)")),
      or_word("none", -1,
              at_least(0, TANG_INTEGER(train.steps,
                                       "optimizer steps; 0 writes the first checkpoint. "
                                       "Give exactly one of steps, tokens, epochs"))),
      or_word("none", 0,
              at_least(1, TANG_INTEGER(train.tokens, "tokens to train on, rounded up to whole steps"))),
      or_word("none", 0,
              above(0, TANG_NUMBER(train.epochs,
                                   "passes over the data, rounded up to whole steps; "
                                   "batches go on across the border"))),
      required(at_least(1, TANG_INTEGER(train.batch_tokens,
                                        "tokens of an optimizer step; a multiple of micro_batch x seq_len"))),
      or_word("auto", 0,
              at_least(1, TANG_INTEGER(train.micro_batch,
                                       "sequences that go through the model at once; the rest of the "
                                       "batch is accumulated. auto: on CUDA the most that fit, on "
                                       "the CPU about 2048 tokens"))),
      at_least(0, TANG_INTEGER(train.seed, "of the weights and of the data's order")),
      one_of({"none", "norms", "swiglu", "block"},
             TANG_TEXT(train.recompute,
                       "what the backward computes again to save memory: each includes the ones before; no "
                       "bit of any result changes")),
  };
}

std::vector<Field> optimizer_fields() {
  return {
      at_least(0, TANG_NUMBER(optimizer.lr, "peak learning rate")),
      fraction(TANG_NUMBER(optimizer.beta1, "decay of the first moment")),
      fraction(TANG_NUMBER(optimizer.beta2, "decay of the second moment")),
      above(0, TANG_NUMBER(optimizer.eps, "added to the root of the second moment")),
      at_least(0, TANG_NUMBER(optimizer.weight_decay,
                              "decoupled; on matrices, embedding and head included, "
                              "not on norms")),
      at_least(0, TANG_NUMBER(optimizer.clip_norm, "largest global gradient norm; 0: no clipping")),
      one_of({"cosine", "linear", "wsd", "constant"},
             TANG_TEXT(schedule.kind, "shape after the warm-up; wsd: constant, then a linear fall")),
      at_least(0, TANG_INTEGER(schedule.warmup_steps,
                               "steps of linear warm-up; step 1 already has peak / warmup")),
      at_least(0, TANG_NUMBER(schedule.min_lr, "learning rate at the end")),
      or_word("auto", 0,
              at_least(1, TANG_INTEGER(schedule.steps,
                                       "length of the schedule; auto: the run's. Give it to stop a "
                                       "run early, or resume it longer, on an unchanged schedule"))),
      or_word("auto", -1,
              at_least(0, TANG_INTEGER(schedule.decay_steps,
                                       "wsd: steps of the final fall; auto: a fifth of the schedule"))),
  };
}

std::vector<Field> run_fields() {
  return {
      at_least(0, TANG_INTEGER(checkpoint.every, "steps between checkpoints; 0: only at the end")),
      at_least(1, TANG_INTEGER(checkpoint.keep, "complete checkpoints to keep, the newest ones")),
      at_least(0, TANG_INTEGER(eval.every, "steps between validation losses; 0: never")),
      at_least(1, TANG_INTEGER(eval.batches, "micro-batches of a validation loss, the same ones every time")),
      TANG_TEXT(eval.sample.prompt, "the text that samples go on from; empty: a document's beginning"),
      at_least(1, TANG_INTEGER(eval.sample.tokens, "tokens of a sample, at most; always the likeliest ones")),
      at_least(0, TANG_INTEGER(eval.sample.every,
                               "steps between samples on the console; 0: none. They change no bit of "
                               "the training")),
      at_least(1, TANG_INTEGER(log.every, "steps between lines on the console and writes to metrics.jsonl")),
      TANG_FIELD(std::string, "run.dir", run_dir, "the run's folder; empty: runs/CONFIG-TIME"),
  };
}

}  // namespace

const std::vector<ConfigField>& schema() {
  static const std::vector<Field> fields = [] {
    std::vector<Field> all;
    for (const auto& part :
         {model_fields(), data_fields(), train_fields(), optimizer_fields(), run_fields()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return fields;
}

}  // namespace tang
