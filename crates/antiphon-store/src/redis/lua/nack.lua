-- ARGV the id, the token, the delay and how often a job is tried. Returns whether the lease was held.
local id, delay = ARGV[1], tonumber(ARGV[3])
local entry = leased(id, ARGV[2])
if not entry then
    return 0
end
local attempts, payload = take_off(id, entry)
if attempts >= tonumber(ARGV[4]) then
    bury(id, attempts, payload)
elseif delay > 0 then
    put_later(id, attempts, payload, delay)
else
    put(id, attempts, payload)
    wake_one()
end
return 1
