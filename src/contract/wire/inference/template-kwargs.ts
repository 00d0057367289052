/**
 * `chat_template_kwargs`: variables of a model's chat template that a caller sets, in a chat and for the chats that a job trains.
 * Plain data; what they do is up to the template.
 */

/** Variables that a template gets from the conversation, the tokenizer or this server: nobody else sets them. */
export const RESERVED_KWARGS: readonly string[] = [
  ...['messages', 'tools', 'documents', 'add_generation_prompt', 'continue_final_message', 'tokenize'],
  ...['chat_template', 'bos_token', 'eos_token', 'pad_token', 'unk_token'],
]
