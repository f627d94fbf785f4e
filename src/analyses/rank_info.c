#include "analyses/rank_info.h"

#include <string.h>

#include "base/json_in.h"

bool lw_rank_says(const struct lw_profile *profile, size_t rank, const char *key,
                  const char *value)
{
    lw_string_id info = profile->trace->ranks[rank].info;
    struct lw_json_in json;
    enum lw_json_token token;

    lw_json_in_init(&json, lw_profile_text(profile, info),
                    lw_strings_len(profile->strings, info));
    if (lw_json_next(&json) != LW_JSON_OBJECT)
        return false;
    while (lw_json_next(&json) == LW_JSON_KEY) {
        bool is_key = lw_json_is(&json, key);

        token = lw_json_next(&json);
        if (is_key && (token == LW_JSON_NUMBER || token == LW_JSON_STRING))
            return json.len == strlen(value) && memcmp(json.text, value, json.len) == 0;
        if (!lw_json_skip_rest(&json, token))
            break;
    }
    return false;
}
