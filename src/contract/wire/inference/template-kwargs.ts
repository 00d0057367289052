/**
 * `chat_template_kwargs`: variables of a model's chat template that a caller chooses, in a chat and for the chats that a job trains.
 * Plain data; what a template does with them is its own.
 */

/** Variables that a template gets from the conversation, the tokenizer or this server: nobody else sets them. */
export const RESERVED_KWARGS: readonly string[] = [
  ...['messages', 'tools', 'documents', 'add_generation_prompt', 'continue_final_message', 'tokenize'],
  ...['chat_template', 'bos_token', 'eos_token', 'pad_token', 'unk_token'],
]
