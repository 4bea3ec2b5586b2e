-- What the service itself puts into which category, and what no expression of a rule may be.

-- Names of applications as trackers tell them: what macOS and Android show, programs of Windows, window classes
-- of Linux, ids of packages. Of sites a name stands for all that is under it too, unless that has a name here
-- of its own (svc.category_of_site).
--
-- Browsers are not here, since what one does in them is told by the site; what cannot be told stays
-- Uncategorized. Nor are lock screens, where nobody does anything. Searching leads to whatever one looks for,
-- so that searches count as nothing but a tool.
insert into reference.category_rule (field, pattern, category)
select known.field,
       unnest(known.patterns),
       known.category
  from (
           values
           ('app', 'Development', array[
               'code', 'code - insiders', 'code-oss', 'vscodium', 'codium', 'visual studio code',
               'code.exe', 'com.microsoft.vscode', 'cursor', 'cursor.exe', 'zed', 'dev.zed.zed',
               'windsurf', 'xcode', 'com.apple.dt.xcode', 'android studio', 'studio64.exe',
               'jetbrains-studio', 'intellij idea', 'idea64.exe', 'jetbrains-idea', 'jetbrains-idea-ce',
               'pycharm', 'pycharm64.exe', 'jetbrains-pycharm', 'jetbrains-pycharm-ce', 'webstorm',
               'webstorm64.exe', 'jetbrains-webstorm', 'phpstorm', 'phpstorm64.exe',
               'jetbrains-phpstorm', 'goland', 'goland64.exe', 'jetbrains-goland', 'clion',
               'clion64.exe', 'jetbrains-clion', 'rider', 'rider64.exe', 'jetbrains-rider', 'rustrover',
               'rustrover64.exe', 'jetbrains-rustrover', 'datagrip', 'datagrip64.exe',
               'jetbrains-datagrip', 'devenv.exe', 'sublime text', 'sublime_text', 'sublime_text.exe',
               'notepad++.exe', 'emacs', 'emacs.exe', 'vim', 'gvim', 'macvim', 'neovide', 'nova',
               'bbedit', 'kate', 'org.kde.kate', 'eclipse', 'eclipse.exe', 'terminal',
               'com.apple.terminal', 'iterm2', 'com.googlecode.iterm2', 'warp', 'ghostty',
               'com.mitchellh.ghostty', 'alacritty', 'alacritty.exe', 'kitty', 'wezterm', 'wezterm-gui',
               'wezterm-gui.exe', 'foot', 'xterm', 'tilix', 'terminator', 'konsole', 'org.kde.konsole',
               'gnome-terminal', 'gnome-terminal-server', 'org.gnome.terminal', 'org.gnome.ptyxis',
               'org.gnome.console', 'windowsterminal.exe', 'cmd.exe', 'powershell.exe', 'pwsh.exe',
               'com.termux', 'putty.exe', 'docker desktop', 'postman', 'postman.exe', 'insomnia',
               'dbeaver', 'dbeaver.exe', 'tableplus', 'pgadmin 4', 'github desktop',
               'githubdesktop.exe', 'sourcetree', 'gitkraken', 'fork', 'tower', 'rstudio',
               'rstudio.exe', 'matlab', 'jupyterlab', 'godot', 'unity', 'unity.exe', 'unrealeditor.exe'
           ]),
           ('app', 'Writing', array[
               'microsoft word', 'winword.exe', 'com.microsoft.word', 'libreoffice writer',
               'libreoffice-writer', 'pages', 'textedit', 'notes', 'com.apple.notes', 'obsidian',
               'obsidian.exe', 'md.obsidian', 'notion', 'notion.exe', 'notion.id', 'evernote',
               'evernote.exe', 'onenote', 'microsoft onenote', 'onenote.exe', 'bear', 'ulysses',
               'scrivener', 'ia writer', 'typora', 'typora.exe', 'logseq', 'joplin', 'standard notes',
               'texstudio', 'texmaker', 'lyx', 'google docs',
               'com.google.android.apps.docs.editors.docs'
           ]),
           ('app', 'Design', array[
               'figma', 'figma.exe', 'sketch', 'photoshop.exe', 'adobe photoshop', 'illustrator.exe',
               'adobe illustrator', 'indesign.exe', 'adobe indesign', 'adobe xd', 'affinity designer 2',
               'affinity photo 2', 'affinity publisher 2', 'gimp', 'gimp-2.10', 'gimp-3.0', 'inkscape',
               'org.inkscape.inkscape', 'krita', 'blender', 'blender.exe', 'canva', 'lightroom.exe',
               'adobe lightroom', 'darktable', 'afterfx.exe', 'adobe premiere pro.exe',
               'davinci resolve', 'resolve.exe', 'kdenlive', 'final cut pro', 'audacity', 'freecad',
               'autocad'
           ]),
           ('app', 'Reference', array[
               'zotero', 'zotero.exe', 'anki', 'anki.exe', 'com.ichi2.anki', 'preview', 'evince',
               'org.gnome.evince', 'org.gnome.papers', 'okular', 'org.kde.okular', 'zathura',
               'acrobat.exe', 'acrord32.exe', 'adobe acrobat reader', 'sumatrapdf.exe', 'skim',
               'dictionary', 'dash', 'zeal', 'devdocs', 'kindle', 'com.amazon.kindle', 'books',
               'calibre', 'koreader', 'duolingo', 'com.duolingo', 'chatgpt', 'claude', 'perplexity',
               'wikipedia', 'org.wikipedia'
           ]),
           ('app', 'Business', array[
               'microsoft excel', 'excel.exe', 'libreoffice calc', 'libreoffice-calc', 'numbers',
               'google sheets', 'com.google.android.apps.docs.editors.sheets', 'microsoft powerpoint',
               'powerpnt.exe', 'libreoffice impress', 'libreoffice-impress', 'keynote', 'calendar',
               'com.google.android.calendar', 'org.gnome.calendar', 'fantastical', 'things', 'todoist',
               'todoist.exe', 'com.todoist', 'ticktick', 'omnifocus', 'reminders', 'trello', 'asana',
               'linear', 'jira', 'clickup', 'microsoft project', 'gnucash', 'quickbooks', 'power bi',
               'pbidesktop.exe', 'tableau', 'tableau.exe'
           ]),
           ('app', 'Communication', array[
               'mail', 'com.apple.mobilemail', 'thunderbird', 'thunderbird.exe',
               'net.thunderbird.android', 'org.mozilla.thunderbird', 'microsoft outlook', 'outlook',
               'outlook.exe', 'olk.exe', 'com.microsoft.office.outlook', 'gmail',
               'com.google.android.gm', 'evolution', 'spark', 'proton mail', 'slack', 'slack.exe',
               'com.slack', 'com.tinyspeck.slackmacgap', 'com.tinyspeck.chatlyio', 'microsoft teams',
               'teams.exe', 'ms-teams.exe', 'com.microsoft.teams', 'discord', 'discord.exe',
               'com.discord', 'telegram', 'telegram.exe', 'telegramdesktop', 'org.telegram.desktop',
               'org.telegram.messenger', 'whatsapp', 'whatsapp.exe', 'com.whatsapp',
               'net.whatsapp.whatsapp', 'signal', 'signal.exe', 'org.thoughtcrime.securesms',
               'messages', 'com.apple.mobilesms', 'com.google.android.apps.messaging', 'facetime',
               'phone', 'com.google.android.dialer', 'messenger', 'com.facebook.orca', 'viber',
               'wechat', 'wechat.exe', 'line', 'element', 'element.exe', 'mattermost', 'zulip', 'zoom',
               'zoom.us', 'zoom.exe', 'us.zoom.videomeetings', 'webex', 'skype', 'skype.exe',
               'google meet', 'google chat', 'threema', 'hexchat'
           ]),
           ('app', 'Utilities', array[
               'finder', 'explorer.exe', 'files', 'org.gnome.nautilus', 'nautilus', 'dolphin',
               'org.kde.dolphin', 'thunar', 'nemo', 'pcmanfm', 'total commander', 'totalcmd64.exe',
               'system settings', 'system preferences', 'systemsettings', 'systemsettings.exe',
               'settings', 'com.android.settings', 'gnome-control-center', 'org.gnome.settings',
               'activity monitor', 'taskmgr.exe', 'gnome-system-monitor', 'calculator',
               'calculator.exe', 'org.gnome.calculator', 'clock', 'weather', 'maps', 'google maps',
               'com.google.android.apps.maps', '1password', '1password.exe', 'bitwarden',
               'bitwarden.exe', 'keepassxc', 'keepassxc.exe', 'org.keepassxc.keepassxc', 'notepad.exe',
               'app store', 'com.android.vending', 'raycast', 'alfred', 'disk utility', 'virtualbox',
               'vmware fusion', 'parallels desktop', 'mstsc.exe', 'teamviewer', 'anydesk', 'dropbox',
               'google drive', 'onedrive', 'contacts', 'snippingtool.exe', 'flameshot'
           ]),
           ('app', 'Shopping', array[
               'amazon', 'amazon shopping', 'com.amazon.mshop.android.shopping', 'ebay',
               'com.ebay.mobile', 'etsy', 'com.etsy.android', 'aliexpress', 'com.alibaba.aliexpresshd',
               'temu', 'com.einnovation.temu', 'shein', 'com.zzkko', 'zalando', 'vinted', 'ikea'
           ]),
           ('app', 'News', array[
               'news', 'apple news', 'google news', 'com.google.android.apps.magazines', 'netnewswire',
               'reeder', 'feedly', 'inoreader', 'the new york times', 'com.nytimes.android', 'bbc news',
               'the guardian', 'flipboard', 'hacker news'
           ]),
           ('app', 'Entertainment', array[
               'spotify', 'spotify.exe', 'com.spotify.music', 'com.spotify.client', 'music',
               'com.apple.music', 'apple music', 'youtube music', 'vlc', 'vlc.exe', 'org.videolan.vlc',
               'mpv', 'mpv.exe', 'iina', 'quicktime player', 'rhythmbox', 'org.gnome.rhythmbox3',
               'podcasts', 'pocket casts', 'overcast', 'audible', 'netflix', 'com.netflix.mediaclient',
               'com.netflix.netflix', 'youtube', 'com.google.android.youtube', 'com.google.ios.youtube',
               'tv', 'com.apple.tv', 'plex', 'jellyfin', 'kodi', 'twitch', 'tv.twitch.android.app',
               'prime video', 'com.amazon.avod.thirdpartyclient', 'disney+', 'soundcloud', 'totem'
           ]),
           ('app', 'Social', array[
               'facebook', 'com.facebook.katana', 'com.facebook.facebook', 'instagram',
               'com.instagram.android', 'com.burbn.instagram', 'threads', 'com.instagram.barcelona',
               'x', 'twitter', 'com.twitter.android', 'com.atebits.tweetie2', 'tiktok',
               'com.zhiliaoapp.musically', 'snapchat', 'com.snapchat.android',
               'com.toyopagroup.picaboo', 'reddit', 'com.reddit.frontpage', 'com.reddit.reddit',
               'linkedin', 'com.linkedin.android', 'pinterest', 'com.pinterest', 'tumblr', 'mastodon',
               'bluesky', 'xyz.blueskyweb.app', 'quora', 'bereal'
           ]),
           ('app', 'Games', array[
               'steam', 'steam.exe', 'steamwebhelper.exe', 'com.valvesoftware.steam',
               'epic games launcher', 'epicgameslauncher.exe', 'battle.net', 'battle.net.exe',
               'gog galaxy', 'galaxyclient.exe', 'lutris', 'heroic', 'minecraft', 'minecraft.exe',
               'roblox', 'robloxplayerbeta.exe', 'com.roblox.client', 'league of legends',
               'leagueclientux.exe', 'valorant.exe', 'cs2.exe', 'dota2.exe',
               'fortniteclient-win64-shipping.exe', 'playnite', 'xbox', 'candy crush saga',
               'com.king.candycrushsaga', 'chess', 'sudoku', 'solitaire'
           ]),
           ('domain', 'Development', array[
               'github.com', 'gitlab.com', 'bitbucket.org', 'codeberg.org', 'sr.ht',
               'stackoverflow.com', 'npmjs.com', 'pypi.org', 'crates.io', 'pkg.go.dev',
               'hub.docker.com', 'vercel.com', 'netlify.com', 'console.aws.amazon.com',
               'console.cloud.google.com', 'portal.azure.com', 'colab.research.google.com',
               'kaggle.com', 'huggingface.co', 'leetcode.com', 'codepen.io', 'codesandbox.io',
               'replit.com', 'sentry.io', 'grafana.net'
           ]),
           ('domain', 'Writing', array[
               'docs.google.com', 'overleaf.com', 'notion.so', 'notion.com', 'hackmd.io',
               'grammarly.com'
           ]),
           ('domain', 'Design', array[
               'figma.com', 'canva.com', 'dribbble.com', 'behance.net', 'miro.com', 'excalidraw.com',
               'fonts.google.com', 'unsplash.com'
           ]),
           ('domain', 'Reference', array[
               'wikipedia.org', 'wiktionary.org', 'wikimedia.org', 'wolframalpha.com',
               'stackexchange.com', 'superuser.com', 'serverfault.com', 'askubuntu.com',
               'developer.mozilla.org', 'docs.python.org', 'docs.rs', 'readthedocs.io',
               'learn.microsoft.com', 'developer.apple.com', 'postgresql.org', 'w3schools.com',
               'wiki.archlinux.org', 'scholar.google.com', 'arxiv.org', 'ncbi.nlm.nih.gov', 'jstor.org',
               'researchgate.net', 'books.google.com', 'archive.org', 'openstreetmap.org',
               'translate.google.com', 'deepl.com', 'leo.org', 'dict.cc', 'linguee.com', 'coursera.org',
               'edx.org', 'udemy.com', 'khanacademy.org', 'duolingo.com', 'goodreads.com',
               'chatgpt.com', 'claude.ai', 'gemini.google.com', 'perplexity.ai',
               'copilot.microsoft.com', 'medium.com'
           ]),
           ('domain', 'Business', array[
               'calendar.google.com', 'sheets.google.com', 'slides.google.com', 'atlassian.net',
               'trello.com', 'asana.com', 'linear.app', 'monday.com', 'clickup.com', 'todoist.com',
               'airtable.com', 'salesforce.com', 'hubspot.com', 'sharepoint.com', 'office.com',
               'docusign.com', 'stripe.com', 'paypal.com', 'indeed.com'
           ]),
           ('domain', 'Communication', array[
               'mail.google.com', 'outlook.live.com', 'outlook.office.com', 'outlook.office365.com',
               'mail.yahoo.com', 'proton.me', 'fastmail.com', 'gmx.net', 'web.de', 'slack.com',
               'teams.microsoft.com', 'teams.live.com', 'meet.google.com', 'chat.google.com', 'zoom.us',
               'webex.com', 'discord.com', 'web.whatsapp.com', 'whatsapp.com', 'telegram.org',
               'messenger.com', 'element.io', 'messages.google.com'
           ]),
           ('domain', 'Utilities', array[
               'google.com', 'google.de', 'google.co.uk', 'google.fr', 'bing.com', 'duckduckgo.com',
               'ecosia.org', 'startpage.com', 'kagi.com', 'search.brave.com', 'qwant.com',
               'drive.google.com', 'dropbox.com', 'onedrive.live.com', 'icloud.com', 'maps.google.com',
               'photos.google.com', 'bitwarden.com', '1password.com', 'speedtest.net', 'weather.com',
               'wetransfer.com'
           ]),
           ('domain', 'Shopping', array[
               'amazon.com', 'amazon.de', 'amazon.co.uk', 'amazon.fr', 'amazon.it', 'amazon.es',
               'amazon.ca', 'amazon.in', 'amazon.co.jp', 'ebay.com', 'ebay.de', 'ebay.co.uk',
               'etsy.com', 'aliexpress.com', 'temu.com', 'shein.com', 'walmart.com', 'target.com',
               'bestbuy.com', 'ikea.com', 'zalando.de', 'otto.de', 'kleinanzeigen.de', 'idealo.de',
               'vinted.com', 'booking.com', 'airbnb.com', 'craigslist.org'
           ]),
           ('domain', 'News', array[
               'news.ycombinator.com', 'news.google.com', 'nytimes.com', 'washingtonpost.com',
               'wsj.com', 'cnn.com', 'bbc.com', 'bbc.co.uk', 'theguardian.com', 'reuters.com',
               'apnews.com', 'bloomberg.com', 'ft.com', 'economist.com', 'theverge.com',
               'arstechnica.com', 'wired.com', 'techcrunch.com', 'lobste.rs', 'spiegel.de', 'zeit.de',
               'faz.net', 'sueddeutsche.de', 'tagesschau.de', 'heise.de', 'lemonde.fr', 'elpais.com',
               'corriere.it', 'nos.nl', 'feedly.com', 'substack.com'
           ]),
           ('domain', 'Entertainment', array[
               'youtube.com', 'netflix.com', 'twitch.tv', 'disneyplus.com', 'primevideo.com',
               'hulu.com', 'max.com', 'tv.apple.com', 'vimeo.com', 'dailymotion.com', 'bilibili.com',
               'crunchyroll.com', 'spotify.com', 'soundcloud.com', 'music.apple.com', 'deezer.com',
               'bandcamp.com', 'imdb.com', 'letterboxd.com', '9gag.com', 'imgur.com', 'ardmediathek.de'
           ]),
           ('domain', 'Social', array[
               'facebook.com', 'instagram.com', 'threads.net', 'threads.com', 'x.com', 'twitter.com',
               'tiktok.com', 'snapchat.com', 'reddit.com', 'linkedin.com', 'pinterest.com',
               'tumblr.com', 'quora.com', 'bsky.app', 'mastodon.social', 'xing.com', 'vk.com',
               'weibo.com', 'nextdoor.com'
           ]),
           ('domain', 'Games', array[
               'steampowered.com', 'steamcommunity.com', 'epicgames.com', 'gog.com', 'itch.io',
               'roblox.com', 'minecraft.net', 'chess.com', 'lichess.org', 'poki.com', 'ign.com',
               'blizzard.com', 'playstation.com', 'xbox.com'
           ])
       ) as known (field, category, patterns);

-- What was summed up before is so by fewer rules. A day that is at work already is marked again.
insert into activity.summary_due (user_id, date)
select user_id,
       date
  from activity.daily_summary
    on conflict (user_id, date) do update
   set marked_at = greatest(now(), summary_due.marked_at + interval '1 microsecond');

-- Where the bracket expression ends that begins at `p_start`; null: nowhere. A closing bracket that comes first
-- in it is one of its letters, and so is whatever stands in [: :], [. .] and [= =].
create function svc.bracket_end(p_letters text[], p_start integer)
returns integer
language plpgsql
immutable
parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    i integer := p_start + 1;
begin
    if p_letters[i] = '^' then
        i := i + 1;
    end if;
    if p_letters[i] = ']' then
        i := i + 1;
    end if;
    while p_letters[i] <> ']' loop
        if p_letters[i] = '\' then
            i := i + case p_letters[i + 1] when 'c' then 3 else 2 end;
        elsif p_letters[i] = '[' and p_letters[i + 1] in (':', '.', '=') then
            i := i + 2
               + strpos(array_to_string(p_letters[i + 2:], ''), p_letters[i + 1] || ']')
               + 1;
        else
            i := i + 1;
        end if;
    end loop;
    return case when i <= cardinality(p_letters) then i end;
end
$$;

-- Up to which letters the ranges in a bracket expression go, added up. Whatever follows a hyphen is taken for
-- the end of one. A letter may be given by its number: after \u with four digits, after \U with eight, and
-- after \x with as many as there are, of which the last eight count.
create function svc.bracket_reach(p_bracket text)
returns bigint
language sql
immutable
parallel safe
set search_path = pg_catalog, pg_temp
return (
    select coalesce(sum(coalesce(('x' || lpad(right(number, 8), 8, '0'))::bit(32)::bigint, ascii(letter))), 0)
      from regexp_matches(
               p_bracket,
               '-(?:\[[.=])?(?:\\u([[:xdigit:]]{4})|\\U([[:xdigit:]]{8})|\\x([[:xdigit:]]+)|([^-]))',
               'g'
           ) as found
     cross join lateral (values (coalesce(found[1], found[2], found[3]), found[4])) as ends (number, letter)
);

-- Why an expression cannot be a rule's; null: it can. What it returns is one of
--
--   not_one          brackets that do not end, and the like
--   question_mark    a group that begins with (? and is not (?: ), such as a look ahead
--   back_reference   \1 and the like
--   repeated_anchor  an anchor that is repeated, by itself or in a group
--   wide_range       ranges such as a-z over very many letters
--   too_large        more than 255 symbols or 25 that may come more or less often, when what comes a certain
--                    number of times is written out; or more than 4 anchors, where one about words counts twice
--
-- Postgres reads a text once, letter by letter, whatever the expression, but for two things: a back reference
-- may try all ways to split a text, and looks ahead within each other read it from each of its letters again.
-- What is left is the time that it takes to make an automaton of an expression. It grows fast with what may be
-- left out or repeated and with anchors, and repeated anchors can make it as good as endless. Of each letter
-- in a range it looks for the capital one, and it takes numbers of letters up to two milliards.
create function svc.expression_problem(p_pattern text)
returns text
language plpgsql
immutable
parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
    letters     constant text[] := string_to_array(p_pattern, null);
    -- Of every open group: how many symbols it has, how many of them may come more or less often, and whether
    -- one is an anchor.
    depth       integer := 1;
    sizes       integer[] := '{0}';
    options     integer[] := '{0}';
    is_anchored boolean[] := '{f}';
    -- The same of what a quantifier would be about, and whether that is a group.
    size        integer := 0;
    optional    integer := 0;
    has_anchor  boolean := false;
    is_group    boolean := false;
    anchors     integer := 0;
    reach       bigint := 0;
    ends_at     integer;
    times       text[];
    fewest      integer;
    most        integer;
    is_free     boolean;
    i           integer := 1;
begin
    -- What changes the language of the rest.
    if starts_with(p_pattern, '***') then
        return 'question_mark';
    end if;
    while i <= cardinality(letters) loop
        if letters[i] in ('*', '+', '?') or (letters[i] = '{' and letters[i + 1] ~ '^[0-9]$') then
            times := case letters[i]
                when '{' then regexp_match(substr(p_pattern, i), '^\{([0-9]{1,4})(?:,([0-9]{0,4}))?\}')
                when '*' then '{0,""}'
                when '+' then '{1,""}'
                else '{0,1}'
            end;
            if times is null then
                return 'not_one';
            elsif has_anchor then
                return 'repeated_anchor';
            end if;
            fewest := times[1];
            most := greatest(fewest, nullif(times[2], '')::integer, 1);
            is_free := coalesce(times[2] = '', false);
            -- Of a group that comes once or more often, Postgres makes the last time out by itself; so what
            -- is in such groups within each other doubles with each of them.
            if is_group and is_free and fewest = 1 then
                most := 2;
            end if;
            -- Far beyond the limits it does not matter how far.
            sizes[depth] := least(sizes[depth] + size * (most - 1), 10000);
            options[depth] := least(
                options[depth] + optional * (most - 1) + case when is_free then 1 else most - fewest end,
                10000
            );
            -- Two quantifiers in a row are no expression.
            size := 0;
            optional := 0;
            if letters[i] = '{' then
                i := i + strpos(substr(p_pattern, i), '}') - 1;
            end if;
            if letters[i + 1] = '?' then
                i := i + 1;
            end if;
        elsif letters[i] = '(' then
            if letters[i + 1] = '?' then
                if letters[i + 2] is distinct from ':' then
                    return 'question_mark';
                end if;
                i := i + 2;
            end if;
            depth := depth + 1;
            sizes[depth] := 0;
            is_anchored[depth] := false;
            options[depth] := (letters[i + 1] in ('|', ')'))::integer;
        elsif letters[i] = ')' and depth > 1 then
            size := greatest(sizes[depth], 1);
            optional := options[depth];
            has_anchor := is_anchored[depth];
            is_group := true;
            depth := depth - 1;
            sizes[depth] := least(sizes[depth] + size, 10000);
            options[depth] := least(options[depth] + optional, 10000);
            is_anchored[depth] := is_anchored[depth] or has_anchor;
        elsif letters[i] = '|' then
            -- An alternative that is nothing makes the others optional.
            if coalesce(letters[i + 1], '|') in ('|', ')') then
                options[depth] := options[depth] + 1;
            end if;
        else
            size := 1;
            optional := 0;
            is_group := false;
            has_anchor := letters[i] in ('^', '$');
            if letters[i] = '\' then
                i := i + 1;
                if letters[i] ~ '^[1-9]$' then
                    return 'back_reference';
                end if;
                has_anchor := coalesce(letters[i] in ('A', 'm', 'M', 'y', 'Y', 'Z'), false);
                -- After \c any letter stands for a control character, a bracket too.
                if letters[i] = 'c' then
                    i := i + 1;
                end if;
            elsif substr(p_pattern, i, 7) in ('[[:<:]]', '[[:>:]]') then
                has_anchor := true;
                i := i + 6;
            elsif letters[i] = '[' then
                ends_at := svc.bracket_end(letters, i);
                if ends_at is null then
                    return 'not_one';
                end if;
                reach := reach + svc.bracket_reach(substr(p_pattern, i, ends_at - i));
                i := ends_at;
            end if;
            if has_anchor then
                -- Those about words look at two letters.
                anchors := anchors + case when letters[i] in ('^', '$', 'A', 'Z') then 1 else 2 end;
            end if;
            sizes[depth] := sizes[depth] + 1;
            is_anchored[depth] := is_anchored[depth] or has_anchor;
        end if;
        i := i + 1;
    end loop;
    return case
        when depth > 1 then 'not_one'
        when reach > 200000 then 'wide_range'
        when sizes[1] > 255 or options[1] > 25 or anchors > 4 then 'too_large'
    end;
end
$$;

alter table activity.category_rule
    add constraint category_rule_expression_is_no_burden check (
        match <> 'regex' or svc.expression_problem(pattern) is null
    );
