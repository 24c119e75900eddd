// Moves samples from one program to another without loss. Start the reader and the writer, in any order; an
// engine runs on this machine.
//
//     mono stream.exe read [ENGINE-PORT]
//     mono stream.exe write [ENGINE-PORT]

using System;
using System.Globalization;
using Trunkline;

static class Stream
{
    const int Samples = 100000;
    const int Block = 1000;

    static int Main(string[] arguments)
    {
        try
        {
            using (var options = new StreamOptions { Capacity = 2 * Block })
            {
                if (arguments.Length > 1)
                {
                    options.EnginePort = ushort.Parse(arguments[1]);
                }
                if (arguments.Length > 0 && arguments[0] == "write")
                {
                    Write(options);
                }
                else
                {
                    Read(options);
                }
            }
            return 0;
        }
        catch (TrunklineException error)
        {
            Console.Error.WriteLine("{0}: {1}", error.Name, error.Message);
            return 1;
        }
    }

    static void Write(StreamOptions options)
    {
        using (var writer = StreamWriter<double>.Create("daq/out", "daq/raw", options, 20000))
        {
            for (var first = 0; first < Samples; first += Block)
            {
                // The samples are written where they are sent from. Waits while the reader's buffer is full.
                var block = writer.Reserve(Block, 10000);
                for (var index = 0; index < Block; index++)
                {
                    block[index] = first + index;
                }
                writer.Commit(Block, 10000);
            }
            writer.Flush(Stage.Read, 10000);
            Console.WriteLine("{0} samples not delivered", writer.End(10000));
        }
    }

    static void Read(StreamOptions options)
    {
        var total = 0;
        var sum = 0.0;
        var block = new double[Block];
        using (var reader = StreamReader<double>.Create("daq/raw", "", options, 20000))
        {
            // At least one sample, and as many more as there are; none at the end of the stream.
            for (int count; (count = reader.ReadAsync(block, 10000).Result) > 0; total += count)
            {
                for (var index = 0; index < count; index++)
                {
                    sum += block[index];
                }
            }
        }
        Console.WriteLine("{0} samples, sum {1}", total, sum.ToString(CultureInfo.InvariantCulture));
    }
}
