/**
 * Warnings for the person who adds a base model that can be served: for example that its files name no token that ends an
 * answer, that its chat template leaves messages out, or that a part of it is not used. Sentences, without the model's name.
 */
import { templateLimits } from '#model/text/check-template.js'
import type { TextModel } from '#model/text/text-model.js'
import type { WeightSource } from '#model/weights/weight-source.js'

/** What of open weights is looked at. */
type Source = Pick<WeightSource, 'hfConfig' | 'ggufMetadata' | 'hasOwnHead' | 'isTextPart' | 'hasUnreadShards'>

/**
 * One sentence each; none for a model that is whole.
 *
 * @param embeddingRows tokens that the model's weights know
 */
export function modelWarnings(source: Source, text: TextModel, embeddingRows: number): string[] {
  return [
    ...endWarnings(text),
    ...templateWarnings(text),
    ...tokenizerWarnings(source),
    ...text.tokenizer.notes,
    ...sizeWarnings(text, embeddingRows),
    ...weightWarnings(source),
  ]
}

/** An embedding may be padded beyond its tokenizer, not the other way round. */
function sizeWarnings({ tokenizer }: TextModel, embeddingRows: number): string[] {
  const { vocabularySize } = tokenizer
  if (vocabularySize <= embeddingRows) return []
  const beyond = Array.from({ length: vocabularySize - embeddingRows }, (_, i) =>
    tokenizer.idToToken(embeddingRows + i),
  )
  const named = beyond.filter((token) => token !== null)
  return [
    `its tokenizer knows ids up to ${vocabularySize - 1}, its embedding has ${embeddingRows} rows: a text or row that needs ${named.length === 1 ? `the token "${named[0]}"` : `one of ${named.length} tokens beyond them, as "${named[0]}",`} is refused`,
  ]
}

function endWarnings({ tokenizer, eosTokenIds, templateEndId }: TextModel): string[] {
  if (eosTokenIds.length === 0) {
    return ['neither its files nor its chat template name a token that ends an answer: answers run to max_tokens']
  }
  if (templateEndId === null) return []
  const spelled = (id: number): string => `"${tokenizer.idToToken(id) ?? id}"`
  const named = eosTokenIds.filter((id) => id !== templateEndId).map(spelled)
  const files = named.length === 0 ? 'its files name no end' : `its files name ${named.join(', ')} as the end`
  return [
    `${files}, its chat template writes ${spelled(templateEndId)} behind an answer: here that ends answers too; eos_token_id of generation_config.json (${templateEndId}) tells other programs`,
  ]
}

function templateWarnings({ chatTemplate, templateNotes = [] }: TextModel): string[] {
  if (chatTemplate === null) {
    return [
      ...templateNotes,
      'it has no chat template: messages are refused, in chats and in rows to train; completions of text work',
    ]
  }
  const { leftOut, refused } = templateLimits(chatTemplate)
  return [
    ...templateNotes,
    ...(leftOut.length === 0
      ? []
      : [`its chat template leaves out ${leftOut.join(', ')}: the model is told nothing of them`]),
    ...(refused.length === 0 ? [] : [`its chat template refuses ${refused.join(', ')}`]),
  ]
}

/** What a GGUF file leaves to be guessed; a `tokenizer.json` says all. */
function tokenizerWarnings({ ggufMetadata }: Source): string[] {
  if (ggufMetadata === null) return []
  const lacks = (name: string): boolean => !ggufMetadata.has(`tokenizer.ggml.${name}`)
  const warnings: string[] = []
  if (ggufMetadata.get('tokenizer.ggml.model') === 'gpt2' && lacks('pre')) {
    warnings.push(
      'its GGUF file does not say how words are cut (tokenizer.ggml.pre): llama.cpp\'s "default" is taken, which may be another model\'s; convert it again with a newer converter',
    )
  }
  if (lacks('token_type')) {
    warnings.push(
      'its GGUF file does not say which tokens are control tokens (tokenizer.ggml.token_type): those of known names are taken',
    )
  }
  return warnings
}

function weightWarnings({ hfConfig, hasOwnHead, isTextPart, hasUnreadShards }: Source): string[] {
  const saysTied = hfConfig !== null && hfConfig['tie_word_embeddings'] === true
  return [
    ...(saysTied && hasOwnHead
      ? [
          'config.json says tie_word_embeddings, yet its weights hold a head of its own (lm_head.weight): the head is used',
        ]
      : []),
    ...(hasUnreadShards
      ? [
          'it has two sets of weights: model.safetensors is read, as in transformers, and the shards of model.safetensors.index.json are not',
        ]
      : []),
    ...(isTextPart ? ['it is a model for images and text, of which the text part is served alone'] : []),
  ]
}
