#!lua flags=no-writes
-- KEYS[1] the log; ARGV the first entry's number, how many, and after how many bytes to stop.
local from, limit, room = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local STEP = 16
local entries = {}
while #entries < limit and room > 0 do
    local step = math.min(STEP, limit - #entries)
    local some = redis.call('LRANGE', KEYS[1], from + #entries, from + #entries + step - 1)
    for _, entry in ipairs(some) do
        table.insert(entries, entry)
        room = room - #entry
        if room <= 0 then
            break
        end
    end
    if #some < step then
        break
    end
end
return entries
