-- What store/redis does, in one call: requests are judged and charged in the order they come in, each
-- as if it were alone. It is the arithmetic of package limit in microseconds, and must answer as that
-- does; see TestOracle. Plain Lua 5.1: numbers are doubles, exact up to 2^53.
--
-- KEYS: the counters, each once.
-- ARGV: the time in microseconds, or '' for the server's; the number of hits; the number of limits;
-- then of each limit
--   op algorithm enforce max window burst, and for a quota: before start stop next
-- and then of each hit
--   (its key's index × 65536 + its limit's) × 2 + (1 if it is its request's last), negative if the cost
--   is not 1; that cost; and for leases their name, or for a refund when it was charged.
-- Returned are three numbers for each hit, remaining reset retry, and at the end the time. What passes
-- has a retry of 0.
--
-- A counter is a string: 7 bytes of when it was last charged, with the length of `used` in the first
-- three bits; used; prev. A token bucket's level is used × window + prev. A sliding log is 4 bytes of
-- how many stamps are dead, then 7 bytes a stamp. Leases are a sorted set by when they expire.
--
-- Functions are few, and those that not every batch needs are not defined in the others: to make a
-- closure costs more than a hit's arithmetic. Hence the one long loop.

local TAKE, PEEK, RELEASE, RENEW, REFUND, RESET = 0, 1, 2, 3, 4, 5
local SLIDING, LOG, FIXED, BUCKET, HELD, QUOTA = 0, 1, 2, 3, 4, 5
local NEVER, FOREVER = -1, 9007199254740991
local SECOND, MINUTE, DAY = 1000000, 60000000, 86400000000
local SMALL = 4096 -- bytes of a log that is read and written whole

local floor, fmod, max, min = math.floor, math.fmod, math.max, math.min
local ceil, byte, char, sub, format = math.ceil, string.byte, string.char, string.sub, string.format
local call = redis.call

local now, spare = ARGV[1], 60000 -- milliseconds that a state is kept longer than it must be
if now == '' then
  local t = call('TIME')
  now, spare = t[1] * SECOND + t[2], 2
else
  now = now + 0
end

-- What is asked. `uses` says of which algorithms there are limits; `rare` that not all is taking from
-- counters that are strings.
local limits, uses, rare, pos = {}, {}, false, 4
for i = 1, ARGV[3] + 0 do
  local op, algorithm, window = ARGV[pos] + 0, ARGV[pos + 1] + 0, ARGV[pos + 4] + 0
  local l = {op = op, algorithm = algorithm, enforce = ARGV[pos + 2] == '1', max = ARGV[pos + 3] + 0,
    window = window, burst = ARGV[pos + 5] + 0, patience = max(window, MINUTE)}
  uses[algorithm] = true
  rare = rare or op > PEEK or algorithm == LOG or algorithm == HELD
  pos = pos + 6
  if algorithm == QUOTA then
    l.before, l.start, l.stop, l.next = ARGV[pos] + 0, ARGV[pos + 1] + 0, ARGV[pos + 2] + 0, ARGV[pos + 3] + 0
    l.patience = DAY
    pos = pos + 4
  end
  limits[i] = l
end

-- What counters hold, by their index in KEYS: when they were last charged, used, prev, and the time
-- after which what is to be written may be forgotten. KEEP stands for the time that it has.
local KEEP = -1
local lasts, useds, prevs, resets = {}, {}, {}, {}
local found = {} -- 1 where there is something in the key, 2 where its expiry has been looked after
local raws

-- muldiv is a × b / c rounded down, and what is left: exact for b and c below 2^45.
local function muldiv(a, b, c)
  local p = a * b
  if p <= FOREVER then
    local r = fmod(p, c)
    return (p - r) / c, r
  end
  local shift, q, r = 1, 0, 0
  while a / shift >= 128 do shift = shift * 128 end
  while shift >= 1 do
    local digit = floor(a / shift)
    a = a - digit * shift
    local t = r * 128 + digit * b
    r = fmod(t, c)
    q = q * 128 + (t - r) / c
    shift = shift / 128
  end
  return q, r
end

-- number reads the bytes from i to j of s, the first the highest.
local function number(s, i, j)
  local v = 0
  for k = i, j do v = v * 256 + byte(s, k) end
  return v
end

-- digits writes v in as few bytes as it takes: none for 0.
local function digits(v)
  local s = ''
  while v > 0 do
    s = char(v % 256) .. s
    v = floor(v / 256)
  end
  return s
end

local drain, level
if uses[BUCKET] then
  -- drain is the time until a level is gone.
  function drain(l, q, r)
    if q == 0 and r == 0 then return 0 end
    if l.max == 0 then return FOREVER end
    local whole, rest = muldiv(q, l.window, l.max)
    local over = fmod(rest + r, l.max)
    return min(FOREVER, whole + (rest + r - over) / l.max + (over > 0 and 1 or 0))
  end

  -- level is what is left of q hits and r parts of one after some time.
  function level(l, q, r, time)
    if q == 0 and r == 0 then return 0, 0 end
    local dq, dr = muldiv(time, l.max, l.window)
    q, r = q - dq, r - dr
    if r < 0 then q, r = q - 1, r + l.window end
    if q < 0 then return 0, 0 end
    return q, r
  end
end

local seven, millis, save
if rare then
  -- seven writes a time in 7 bytes.
  function seven(v)
    local low = v % 16777216
    local high = (v - low) / 16777216
    local mid = high % 16777216
    return char((high - mid) / 16777216, floor(mid / 65536), floor(mid / 256) % 256, mid % 256,
      floor(low / 65536), floor(low / 256) % 256, low % 256)
  end

  -- millis is the expiry of what may be forgotten after reset.
  function millis(reset) return format('%.0f', ceil(min(reset, FOREVER) / 1000) + spare) end

  -- save writes a string that requests left behind.
  function save(key, value, reset)
    if reset == KEEP then
      call('SET', key, value, 'KEEPTTL')
    else
      call('SET', key, value, 'PX', millis(reset))
    end
  end
end

local openLog, look, addStamps, saveLog
local logs = {}
if uses[LOG] then
  local function time(s, i)
    return number(s, i, i + 6)
  end

  -- openLog is the sliding log k: of its stamps those up to `dead` no longer count.
  function openLog(k)
    local g = logs[k]
    if g then return g end
    g = {dead = 0, size = 0, fresh = {}}
    local key = KEYS[k]
    local size = redis.pcall('STRLEN', key)
    if size ~= 0 then found[k] = 1 end
    if type(size) == 'number' and size % 7 == 4 then
      g.size = (size - 4) / 7
      if size <= SMALL then g.whole = call('GET', key) end
      g.dead = number(g.whole or call('GETRANGE', key, 0, 3), 1, 4)
      if g.dead > g.size then g.dead, g.size, g.whole = 0, 0, nil end
    end
    g.kept = g.size -- stamps that are in the string
    logs[k] = g
    return g
  end

  -- stamp is the i-th of the log's stamps, counted from 1.
  local function stamp(k, g, i)
    if i > g.kept then return g.fresh[i - g.kept] end
    if g.whole then return time(g.whole, 7 * i - 2) end
    return time(call('GETRANGE', KEYS[k], 7 * i - 3, 7 * i + 3), 1)
  end

  -- view is the time that the log sees, how many stamps no longer count then, and the last one.
  local function view(l, k, g)
    local last = g.size > g.dead and stamp(k, g, g.size) or 0
    if last - now > l.patience then return now, g.size, last end
    local at = max(now, last)
    local old, step = g.dead, 1
    while old + step <= g.size and at - stamp(k, g, old + step) >= l.window do
      old, step = old + step, step * 2
    end
    local above = min(g.size + 1, old + step) -- the first that may count
    while old + 1 < above do
      local mid = floor((old + above) / 2)
      if at - stamp(k, g, mid) >= l.window then old = mid else above = mid end
    end
    return at, old, last
  end

  function look(l, k, n, held)
    local g = openLog(k)
    local at, old, last = view(l, k, g)
    local used = g.size - old + held
    local free, late = max(0, l.max - used), at - now
    local reset = g.size > old and last + l.window - at or 0
    if reset > 0 then reset = reset + late end
    if n > 0 and n <= free then return true, free - n, l.window + late, 0 end
    local ask = max(n, 1)
    if n <= 0 and free > 0 then return true, free, reset, 0 end
    if ask > l.max - held then return false, free, reset, NEVER end
    return false, free, reset, stamp(k, g, old + used + ask - l.max) + l.window - at + late
  end

  function addStamps(l, k, n, reset)
    local g = openLog(k)
    local at, old = view(l, k, g)
    g.dead, resets[k] = old, reset
    for _ = 1, n do g.fresh[#g.fresh + 1] = at end
    g.size = g.size + n
  end

  function saveLog(k, g)
    local key, live, fresh = KEYS[k], g.size - g.dead, {}
    if live == 0 then
      call('DEL', key)
      return
    end
    for i = max(1, g.dead - g.kept + 1), #g.fresh do fresh[#fresh + 1] = seven(g.fresh[i]) end
    fresh = table.concat(fresh)
    if g.whole or g.dead >= live or g.dead >= g.kept then
      local old = ''
      if g.dead < g.kept then
        old = g.whole and sub(g.whole, 5 + 7 * g.dead) or call('GETRANGE', key, 4 + 7 * g.dead, -1)
      end
      save(key, '\0\0\0\0' .. old .. fresh, resets[k])
    else
      local d = digits(g.dead)
      call('SETRANGE', key, 0, string.rep('\0', 4 - #d) .. d)
      call('APPEND', key, fresh)
      if resets[k] ~= KEEP then call('PEXPIRE', key, millis(resets[k])) end
    end
  end
end

local openHeld, grant, letGo, renew
local sets = {}
if uses[HELD] then
  -- openHeld is how much the leases of k hold that have not expired.
  function openHeld(k)
    if not sets[k] then
      local size = redis.pcall('ZCARD', KEYS[k])
      if size ~= 0 then found[k] = 1 end
      if type(size) ~= 'number' then
        sets[k] = 0
      else
        sets[k] = size > 0 and size - call('ZCOUNT', KEYS[k], '-inf', now) or 0
      end
    end
    return sets[k]
  end

  local function member(lease, i) return i == 1 and lease or lease .. i end

  function grant(l, k, n, lease)
    local key, held = KEYS[k], openHeld(k)
    if held == 0 then
      call('DEL', key)
    else
      call('ZREMRANGEBYSCORE', key, '-inf', now)
    end
    for i = 1, n do call('ZADD', key, format('%.0f', now + l.window), member(lease, i)) end
    call('PEXPIRE', key, millis(l.window))
    sets[k], found[k] = held + n, 2
  end

  function letGo(k, n, lease)
    for i = 1, n do redis.pcall('ZREM', KEYS[k], member(lease, i)) end
    sets[k] = nil
  end

  function renew(l, k, n, lease)
    local held = false
    for i = 1, n do
      if type(redis.pcall('ZSCORE', KEYS[k], member(lease, i))) == 'string' then
        call('ZADD', KEYS[k], format('%.0f', now + l.window), member(lease, i))
        held = true
      end
    end
    if held then call('PEXPIRE', KEYS[k], millis(l.window)) end
    sets[k] = nil
  end
end

local out = {} -- three numbers a hit
local hitLimits, hitKeys, hitCosts, extras = {}, {}, {}, {}

local mind
if rare then
  -- refund takes back n that were charged at `at`, and never more than is surely still there.
  local function refund(l, k, n, at)
    if l.algorithm == LOG then
      local g, kept = openLog(k), {}
      local whole = g.whole or (g.kept > 0 and call('GET', KEYS[k]) or '')
      for i = g.size, g.dead + 1, -1 do
        local t = i > g.kept and g.fresh[i - g.kept] or number(whole, 7 * i - 2, 7 * i + 4)
        if t == at and n > 0 then n = n - 1 else table.insert(kept, 1, t) end
      end
      g.dead, g.kept, g.size, g.fresh, g.whole = 0, 0, #kept, kept, nil
      resets[k] = resets[k] or KEEP
      return
    end
    if not lasts[k] then return end
    local last = lasts[k]
    if last < at then return end
    if l.algorithm == BUCKET then
      -- What drained since may have drained from what is given back.
      local q, r = level(l, n, 0, last - at)
      q, r = useds[k] - q, prevs[k] - r
      if r < 0 then q, r = q - 1, r + l.window end
      if q < 0 then q, r = 0, 0 end
      useds[k], prevs[k] = q, r
    else
      local stop
      if l.algorithm == QUOTA then
        stop = at < l.start and l.start or at < l.stop and l.stop or l.next
      else
        stop = at - fmod(at, l.window) + l.window
      end
      if last < stop then
        useds[k] = max(0, useds[k] - n)
      elseif l.algorithm == SLIDING and last < stop + l.window then
        prevs[k] = max(0, prevs[k] - n)
      end
    end
    resets[k] = resets[k] or KEEP
  end

  local function forget(k)
    call('DEL', KEYS[k])
    raws[k], lasts[k], resets[k], found[k], logs[k], sets[k] = nil, nil, nil, nil, nil, nil
  end

  -- mind does what is not to be answered with a status.
  function mind(i)
    local l, k, n = hitLimits[i], hitKeys[i], hitCosts[i]
    local op = l.op
    if op == RELEASE then letGo(k, n, extras[i]) end
    if op == RENEW then renew(l, k, n, extras[i]) end
    if op == REFUND then refund(l, k, n, extras[i] + 0) end
    if op == RESET then forget(k) end
    local o = 3 * i - 2
    out[o], out[o + 1], out[o + 2] = 0, 0, 0
  end
end

local count = ARGV[2] + 0
local ends = {} -- true for the last hit of a request
for i = 1, count do
  local code, cost = ARGV[pos] + 0, 1
  pos = pos + 1
  if code < 0 then
    code, cost = -code, ARGV[pos] + 0
    pos = pos + 1
  end
  local last = code % 2
  code = (code - last) / 2
  local index = code % 65536
  local l = limits[index]
  hitLimits[i], hitKeys[i], hitCosts[i], ends[i] = l, (code - index) / 65536, cost, last == 1
  if rare and (l.algorithm == HELD or l.op == REFUND) then
    extras[i] = ARGV[pos]
    pos = pos + 1
  end
end

if not rare then
  raws = call('MGET', unpack(KEYS))
else
  local keys, indexes, wanted = {}, {}, {}
  raws = {}
  for i = 1, count do
    local l, k = hitLimits[i], hitKeys[i]
    if l.algorithm ~= LOG and l.algorithm ~= HELD and l.op ~= RESET and not wanted[k] then
      wanted[k], keys[#keys + 1], indexes[#indexes + 1] = true, KEYS[k], k
    end
  end
  local values = #keys > 0 and call('MGET', unpack(keys)) or {}
  for i = 1, #keys do raws[indexes[i]] = values[i] end
end

-- The loop goes over the hits of a request, and if the request is refused once more: the truth is what
-- holds without a charge. What its hits leave behind waits in `next…` until all have passed.
local nextLasts, nextUseds, nextPrevs, nextResets, held = {}, {}, {}, {}, {}
local first, i, pass, truth = 1, 1, true, false
while i <= count do
  local l, k, n = hitLimits[i], hitKeys[i], hitCosts[i]
  local algorithm, most, ended, o = l.algorithm, l.max, ends[i], 3 * i - 2

  -- Read the counter: all 0 if it was never used, or holds what is not ours.
  if not lasts[k] and algorithm ~= LOG and algorithm ~= HELD then
    local s = raws[k]
    lasts[k], useds[k], prevs[k] = 0, 0, 0
    if s then
      found[k] = 1
      local size = #s
      if size >= 7 then
        local a, b, c, d, e, f, g, u, p = byte(s, 1, 9)
        local length = floor(a / 32)
        if size >= 7 + length and size <= 14 + length then
          lasts[k] = ((((((a - length * 32) * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f) * 256 + g
          if length == 1 and size <= 9 then
            useds[k], prevs[k] = u, p or 0
          else
            useds[k], prevs[k] = number(s, 8, 7 + length), number(s, 8 + length, size)
          end
        end
      end
    end
  end

  if l.op > PEEK then
    mind(i)
    if ended then first = i + 1 end
    i = i + 1
  else
    if truth then n = 0 end
    local ask = n > 1 and n or 1

    -- Judge: whether n pass, what is left, until when the counter is used, and the wait; then if n is
    -- charged, what the counter becomes.
    local ok, left, reset, retry, at, used, prev = false, 0, 0, 0, now, 0, 0
    if algorithm == LOG then
      ok, left, reset, retry = look(l, k, n, not truth and held[k] or 0)
    elseif algorithm == HELD then
      local taken = openHeld(k) + (not truth and held[k] or 0)
      left = max(0, most - taken)
      ok, reset = ask <= left, (taken > 0 or n > 0 and n <= left) and SECOND or 0
      if ok then left = left - n else retry = ask > most and NEVER or SECOND end
    else
      local last = lasts[k]
      used, prev = useds[k], prevs[k]
      if nextLasts[k] and not truth then last, used, prev = nextLasts[k], nextUseds[k], nextPrevs[k] end

      -- A counter never goes back in time: its clock stands still, but for a step that is longer than
      -- the limit's patience.
      local late = last - now
      if late > l.patience then
        last, used, prev, late = 0, 0, 0, 0
      elseif late > 0 then
        at = last
      end

      if algorithm == SLIDING then
        local w, idle = l.window, at - last
        local elapsed = fmod(at, w)
        if idle > elapsed then
          used, prev = 0, idle < w and used or 0
        end
        local free = most - used
        if prev > 0 and free > 0 then
          local q, r = muldiv(prev, w - elapsed, w)
          free = free - q
          if r > 0 then free = free - 1 end
        end
        if free < 0 then free = 0 end
        if ask <= free then
          ok, left = true, free - n
          reset = n > 0 and w or (used > 0 or prev > 0) and w - idle or 0
        else
          left, reset = free, (used > 0 or prev > 0) and w - idle or 0
          if ask > most then
            retry = NEVER
          else -- the share of the previous window shrinks: in this window, or this one's in the next
            local wait, room, weighed = w - elapsed, most - used - ask, prev
            if room < 0 then wait, room, weighed = wait + w, most - ask, used end
            wait = wait - (weighed <= room and w or (muldiv(room, w, weighed)))
            retry = min(w - idle, wait)
          end
        end
        used = used + n
      elseif algorithm == BUCKET then
        local q, r = level(l, used, prev, at - last)
        local burst = most > 0 and l.burst or 0
        local free = max(0, burst - q - (r > 0 and 1 or 0))
        used, prev = q + n, r
        if ask <= free then
          ok, left, reset = true, free - n, drain(l, used, r)
        else
          left, reset = free, drain(l, q, r)
          retry = ask > burst and NEVER or drain(l, q - (burst - ask), r)
        end
      else -- counted in a span
        local start, stop
        if algorithm == FIXED then
          start = at - fmod(at, l.window)
          stop = start + l.window
        elseif at < l.start then
          start, stop = l.before, l.start
        elseif at < l.stop then
          start, stop = l.start, l.stop
        else
          start, stop = l.stop, max(l.next, at + 1)
        end
        if last < start then used = 0 end
        left = max(0, most - used)
        ok, reset = ask <= left, (used > 0 or n > 0 and n <= left) and stop - at or 0
        if ok then left = left - n else retry = ask > most and NEVER or stop - at end
        used, prev = used + n, 0
      end
      if late > 0 then
        if reset > 0 then reset = reset + late end
        if retry > 0 then retry = retry + late end
      end
    end

    if truth then
      out[o], out[o + 1] = left, reset
    else
      out[o], out[o + 1], out[o + 2] = left, reset, retry
      if ok and n > 0 then
        if algorithm == LOG or algorithm == HELD then
          held[k] = (held[k] or 0) + n
        elseif first < i or not ended then
          nextLasts[k], nextUseds[k], nextPrevs[k], nextResets[k] = at, used, prev, reset
        elseif l.op == TAKE then -- a request of one hit
          lasts[k], useds[k], prevs[k], resets[k] = at, used, prev, reset
        end
      elseif not ok then
        if l.enforce then pass = false end
        if l.op == TAKE and found[k] == 1 and not resets[k] then -- has it an expiry?
          found[k] = 2
          if call('PTTL', KEYS[k]) == -1 then
            if algorithm == HELD then reset = l.window end
            call('PEXPIRE', KEYS[k], format('%.0f', ceil(min(reset, FOREVER) / 1000) + spare))
          end
        end
      end
    end

    if not ended then
      i = i + 1
    elseif first == i and not rare then
      i = i + 1
      first, pass = i, true
    elseif not pass and not truth and first < i then
      i, truth = first, true
    else
      for h = first, i do
        local key, limit = hitKeys[h], hitLimits[h]
        if pass and limit.op == TAKE then
          if nextLasts[key] then
            lasts[key], useds[key], prevs[key] = nextLasts[key], nextUseds[key], nextPrevs[key]
            resets[key] = nextResets[key]
          elseif held[key] and hitCosts[h] > 0 and out[3 * h] == 0 then
            if limit.algorithm == LOG then
              addStamps(limit, key, hitCosts[h], out[3 * h - 1])
            else
              grant(limit, key, hitCosts[h], extras[h])
            end
          end
        end
      end
      for h = first, i do nextLasts[hitKeys[h]], held[hitKeys[h]] = nil, nil end
      i = i + 1
      first, pass, truth = i, true, false
    end
  end
end

-- Write what the requests left behind. The expiry is mostly the one before.
local millisOf, millisText
for k, reset in pairs(resets) do
  local used, prev, key = useds[k], prevs[k], KEYS[k]
  if logs[k] then
    saveLog(k, logs[k])
  elseif used == 0 and prev == 0 then
    call('DEL', key)
  else
    local last, value = lasts[k], nil
    local low = last % 16777216
    local high = (last - low) / 16777216
    local mid = high % 16777216
    local a, b, c, d = (high - mid) / 16777216, floor(mid / 65536), floor(mid / 256) % 256, mid % 256
    local e, f, g = floor(low / 65536), floor(low / 256) % 256, low % 256
    if used > 0 and used < 256 and prev == 0 then
      value = char(32 + a, b, c, d, e, f, g, used)
    elseif used > 0 and used < 256 and prev < 256 then
      value = char(32 + a, b, c, d, e, f, g, used, prev)
    else
      local text = digits(used)
      value = char(#text * 32 + a, b, c, d, e, f, g) .. text .. digits(prev)
    end
    if reset == KEEP then
      call('SET', key, value, 'KEEPTTL')
    else
      if reset ~= millisOf then
        millisOf, millisText = reset, format('%.0f', ceil(min(reset, FOREVER) / 1000) + spare)
      end
      call('SET', key, value, 'PX', millisText)
    end
  end
end

out[3 * count + 1] = now
return out
