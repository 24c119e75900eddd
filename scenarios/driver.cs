// Carries out the steps of table.txt with the C# bindings, and prints them with their results.
//
//     mono driver.exe URL ENGINE-PORT TABLE

using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Text;
using System.Threading.Tasks;
using Trunkline;

static class Driver
{
    const int Limit = 20000;

    static readonly CultureInfo Plain = CultureInfo.InvariantCulture;
    static readonly Client[] clients = new Client[2];
    static readonly Readings readings = new Readings();
    static readonly Dictionary<string, Subscription> monitors = new Dictionary<string, Subscription>();
    static readonly Dictionary<string, IStream> streams = new Dictionary<string, IStream>();
    static readonly StreamOptions options = new StreamOptions();

    static int Main(string[] arguments)
    {
        clients[0] = Client.Connect(arguments[0], Limit);
        clients[1] = Client.Connect(arguments[0], Limit);
        options.EnginePort = ushort.Parse(arguments[1]);
        var output = new StreamWriter(Console.OpenStandardOutput(), new UTF8Encoding(false));
        foreach (var line in File.ReadLines(arguments[2]).Where(line => line != "" && line[0] != '#'))
        {
            var step = line.Substring(0, line.IndexOf(" =>", StringComparison.Ordinal));
            output.WriteLine((step + " => " + Run(step)).TrimEnd());
        }
        output.Flush();
        clients[0].Dispose();
        clients[1].Dispose();
        return 0;
    }

    static string Run(string step)
    {
        var client = clients[0];
        if (step.StartsWith("other "))
        {
            client = clients[1];
            step = step.Substring(6);
        }
        var limit = Limit;
        if (step.EndsWith(" now") || step.EndsWith(" briefly"))
        {
            limit = step.EndsWith(" now") ? 0 : 20;
            step = step.Substring(0, step.LastIndexOf(' '));
        }
        string rest, more;
        var verb = First(step, out rest);
        var first = First(rest, out more);
        try
        {
            switch (verb)
            {
                case "get": return client.ReadText(client.Open(first, Limit), Limit);
                case "read": return Read(client, first);
                case "put": case "force": case "unforce": case "batch": case "group": return Write(client, verb, rest);
                case "snapshot": return Snapshot(client, rest.Split(' '));
                case "find": return string.Join("; ", client.Find(rest, Limit));
                case "lease": client.Lease(client.Open(first, Limit), Limit, Limit); return "ok";
                case "release": client.Lease(client.Open(first, Limit), 0, Limit); return "ok";
                case "monitor":
                    string names;
                    var contract = First(more, out names);
                    monitors[first] = client.Subscribe(names.Split(' '), contract);
                    return "ok";
                case "next": return Next(monitors[first], int.Parse(more), Limit);
                case "poll": return Next(monitors[first], 1, 0);
                case "close": monitors[first].Dispose(); return "ok";
                case "open": streams[first] = Open(first, more.Split(' ')); return "ok";
                case "write": streams[first].Write(more.Split(' '), limit); return "ok";
                case "flush": return streams[first].Flush(more, limit) ? "ok" : "timeout";
                case "read-stream": return streams[first].Read(int.Parse(more), int.Parse(more), limit);
                case "take": return streams[first].Read(0, 16, 0);
                case "end": return streams[first].End().ToString();
                case "abort": streams[first].Abort(more); return "ok";
                case "stop": streams[first].Stop(); return "ok";
                default: return "there is no step " + verb;
            }
        }
        catch (TrunklineException error)
        {
            return error.Name;
        }
    }

    static string First(string text, out string rest)
    {
        var space = text.IndexOf(' ');
        rest = space < 0 ? "" : text.Substring(space + 1);
        return space < 0 ? text : text.Substring(0, space);
    }

    // The name of the status with which a call fails; empty if it succeeds.
    static string Word(Action call)
    {
        try
        {
            call();
            return "";
        }
        catch (TrunklineException error)
        {
            return error.Name;
        }
    }

    static string Value(int index)
    {
        return readings[index].HasValue ? readings.Text(index) : "-";
    }

    static string Read(Client client, string name)
    {
        client.Read(new[] { client.Open(name, Limit) }, readings, Limit);
        var reading = readings[0];
        var quality = new[] { "good", "uncertain", "bad", "bad" }[reading.Quality & 3];
        var reason = reading.Quality >> 2 & 0x3fff;
        var forced = (reading.Quality >> 20 & 1) == 1 ? " forced" : "";
        return Value(0) + " " + quality + (reason > 0 ? ":" + reason : "") + forced + " " + reading.Sequence;
    }

    static void Add(Writes writes, ulong variable, string value)
    {
        var isNumber = value != "" && (value[0] == '-' || char.IsDigit(value[0]));
        if (value.StartsWith("["))
        {
            var numbers = value.Trim('[', ']').Split(new[] { ", " }, StringSplitOptions.RemoveEmptyEntries);
            writes.Add(variable, numbers.Select(number => double.Parse(number, Plain)).ToArray());
        }
        else if (isNumber && value.Contains("."))
        {
            writes.Add(variable, double.Parse(value, Plain));
        }
        else if (isNumber)
        {
            writes.Add(variable, long.Parse(value, Plain));
        }
        else
        {
            writes.Add(variable, value);
        }
    }

    static string Write(Client client, string verb, string list)
    {
        var results = new List<string>();
        using (var writes = client.CreateWrites())
        {
            foreach (var write in list.Split(new[] { "; " }, StringSplitOptions.None))
            {
                string value;
                var name = First(write, out value);
                results.Add(Word(() =>
                {
                    var variable = client.Open(name, Limit);
                    if (verb == "unforce")
                    {
                        writes.AddOrder(variable, Verb.Unforce);
                        return;
                    }
                    Add(writes, variable, value);
                    if (verb == "force")
                    {
                        writes.As(Verb.Force);
                    }
                }));
            }
            // The outcomes say what failed.
            Word(() =>
            {
                if (verb == "group")
                {
                    writes.SendAsGroup(Limit);
                }
                else
                {
                    writes.Send(Limit);
                }
            });
            for (int index = 0, sent = 0; index < results.Count; index++)
            {
                if (results[index] == "")
                {
                    results[index] = Shown(writes.Outcome(sent++));
                }
            }
        }
        return string.Join("; ", results);
    }

    static string Shown(Outcome outcome)
    {
        switch (outcome.Kind)
        {
            case OutcomeKind.Applied: return "applied " + outcome.Sequence;
            case OutcomeKind.Unchanged: return "unchanged " + outcome.Sequence;
            default: return TrunklineException.NameOf(outcome.Status);
        }
    }

    static string Snapshot(Client client, string[] names)
    {
        client.Snapshot(client.Open(names, Limit), readings, Limit);
        return string.Join("; ", names.Select((name, index) => Value(index)));
    }

    static string Next(Subscription monitor, int wanted, int limit)
    {
        var taken = new List<string>();
        while (taken.Count < wanted)
        {
            if (!monitor.NextAsync(readings, wanted - taken.Count, limit).Result)
            {
                return "timeout";
            }
            for (var index = 0; index < readings.Count; index++)
            {
                var reading = readings[index];
                var lost = reading.Lost == 0 ? "" : " lost " + (reading.Lost < 0 ? "unknown" : reading.Lost.ToString());
                taken.Add(monitor.ItemName(reading.Item) + " " + Value(index) + lost);
            }
            var occurred = readings.Event;
            if (occurred.Kind == EventKind.ItemError)
            {
                return TrunklineException.NameOf(occurred.Status);
            }
        }
        return string.Join("; ", taken);
    }

    // Both ends of a stream of any of the types in the table.
    interface IStream
    {
        void Write(string[] numbers, int limit);
        bool Flush(string stage, int limit);
        string Read(int minimum, int capacity, int limit);
        ulong End();
        void Abort(string reason);
        void Stop();
    }

    static IStream Open(string name, string[] type)
    {
        options.Capacity = int.Parse(type[1]);
        switch (type[0])
        {
            case "f64": return new Ends<double>(name, options);
            case "i32": return new Ends<int>(name, options);
            default: return new Ends<ushort>(name, options);
        }
    }

    sealed class Ends<T> : IStream where T : struct
    {
        readonly Trunkline.StreamWriter<T> writer;
        readonly Trunkline.StreamReader<T> reader;

        internal Ends(string name, StreamOptions options)
        {
            var opened = Task.Run(() => Trunkline.StreamReader<T>.Create(name + "/reader", "", options, Limit));
            writer = Trunkline.StreamWriter<T>.Create(name + "/writer", name + "/reader", options, Limit);
            reader = opened.Result;
        }

        public void Write(string[] numbers, int limit)
        {
            var elements = numbers.Select(number => (T)Convert.ChangeType(number, typeof(T), Plain));
            writer.Write(elements.ToArray(), limit);
        }

        public bool Flush(string stage, int limit)
        {
            return writer.Flush(stage == "sent" ? Stage.Sent : stage == "received" ? Stage.Available : Stage.Read, limit);
        }

        public string Read(int minimum, int capacity, int limit)
        {
            var elements = new T[capacity];
            var count = reader.Read(elements, minimum, limit);
            return string.Join(" ", elements.Take(count).Select(Shown));
        }

        static string Shown(T element)
        {
            var text = Convert.ToString(element, Plain);
            return element is double && !text.Contains(".") ? text + ".0" : text;
        }

        public ulong End()
        {
            return writer.End(Limit);
        }

        public void Abort(string reason)
        {
            writer.Abort(reason);
        }

        public void Stop()
        {
            reader.Dispose();
        }
    }
}
