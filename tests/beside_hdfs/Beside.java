import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileInputStream;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.security.Permission;
import java.security.PrivilegedExceptionAction;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.protocol.HdfsConstants;
import org.apache.hadoop.hdfs.protocol.SnapshotStatus;
import org.apache.hadoop.hdfs.protocol.SnapshottableDirectoryStatus;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.namenode.NameNode;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.util.ExitUtil;
import org.apache.log4j.AppenderSkeleton;
import org.apache.log4j.Level;
import org.apache.log4j.Logger;
import org.apache.log4j.spi.LoggingEvent;

/**
 * A NameNode and DataNodes of Apache's, and their command line tools, in one process that stays up: a command costs milliseconds.
 *
 * <p>Usage: Beside DIRECTORY DATANODES. Standard input has requests, standard output the answers, both as {@link DataInputStream} reads them.
 * A request is a number of words and the words, each with its length before it: user, file for standard input (or nothing), class, arguments. The
 * answer is the exit code, standard output and standard error. The class "reset" empties the name space.
 */
public final class Beside {
  /** What `System.exit` throws instead. */
  private static final class Exit extends SecurityException {
    final int code;

    Exit(int code) {
      this.code = code;
    }
  }

  private static final class NoExit extends SecurityManager {
    @Override
    public void checkExit(int code) {
      throw new Exit(code);
    }

    @Override
    public void checkPermission(Permission permission) {}

    @Override
    public void checkPermission(Permission permission, Object context) {}
  }

  /** Of what the tools log, the one line that the shell's users read: where the trash is. */
  private static final class TrashLines extends AppenderSkeleton {
    @Override
    protected void append(LoggingEvent event) {
      if (event.getThreadName().equals("main") && event.getLevel().isGreaterOrEqual(Level.INFO)) {
        System.err.println(event.getRenderedMessage());
      }
    }

    @Override
    public void close() {}

    @Override
    public boolean requiresLayout() {
      return false;
    }
  }

  private static final Map<String, UserGroupInformation> USERS = new HashMap<>();

  private static UserGroupInformation user(String name) throws Exception {
    UserGroupInformation login = UserGroupInformation.getLoginUser();
    return name.equals(login.getShortUserName()) ? login : USERS.computeIfAbsent(name, UserGroupInformation::createRemoteUser);
  }

  private static void start(String directory, int datanodes) throws Exception {
    DefaultMetricsSystem.setMiniClusterMode(true);
    Configuration namenode = new HdfsConfiguration();
    namenode.set("dfs.namenode.name.dir", "file://" + directory + "/name");
    NameNode.format(namenode);
    NameNode.createNameNode(new String[0], namenode);
    for (int number = 1; number <= datanodes; number++) {
      Configuration datanode = new HdfsConfiguration();
      datanode.set("dfs.datanode.data.dir", "file://" + directory + "/data" + number);
      DataNode.createDataNode(new String[0], datanode);
    }
    try (DistributedFileSystem files = files()) {
      while (files.getDataNodeStats().length < datanodes || files.setSafeMode(org.apache.hadoop.fs.SafeModeAction.GET)) {
        Thread.sleep(100);
      }
    }
  }

  private static DistributedFileSystem files() throws Exception {
    return (DistributedFileSystem) FileSystem.newInstance(new HdfsConfiguration());
  }

  /** Deletes everything, and gives the root what a fresh one has. */
  private static void reset() throws Exception {
    DistributedFileSystem files = files();
    Path root = new Path("/");
    files.setSafeMode(org.apache.hadoop.fs.SafeModeAction.LEAVE);
    SnapshottableDirectoryStatus[] snapshottable = files.getSnapshottableDirListing();
    for (SnapshottableDirectoryStatus directory : snapshottable == null ? new SnapshottableDirectoryStatus[0] : snapshottable) {
      for (SnapshotStatus snapshot : files.getSnapshotListing(directory.getFullPath())) {
        files.deleteSnapshot(directory.getFullPath(), new Path(snapshot.getFullPath().toString()).getName());
      }
      if (!directory.getFullPath().isRoot()) {
        files.disallowSnapshot(directory.getFullPath());
      }
    }
    for (FileStatus status : files.listStatus(root)) {
      files.delete(status.getPath(), true);
    }
    files.removeAcl(root);
    files.setPermission(root, new FsPermission((short) 0755));
    files.setOwner(root, UserGroupInformation.getLoginUser().getShortUserName(), "supergroup");
    for (String name : files.getXAttrs(root).keySet()) {
      files.removeXAttr(root, name);
    }
    files.setQuota(root, Long.MAX_VALUE - 1, HdfsConstants.QUOTA_RESET);
    files.close();
  }

  private static int run(String tool, String[] arguments) throws Throwable {
    Method main = Class.forName(tool).getMethod("main", String[].class);
    try {
      main.invoke(null, (Object) arguments);
    } catch (InvocationTargetException error) {
      Throwable cause = error.getCause();
      if (cause instanceof Exit) {
        return ((Exit) cause).code;
      }
      if (cause instanceof ExitUtil.ExitException) {
        return ((ExitUtil.ExitException) cause).status;
      }
      // What a Java program does with it.
      System.err.print("Exception in thread \"main\" ");
      cause.printStackTrace();
      return 1;
    }
    return 0;
  }

  private static String word(DataInputStream in) throws Exception {
    byte[] bytes = new byte[in.readInt()];
    in.readFully(bytes);
    return new String(bytes, StandardCharsets.UTF_8);
  }

  public static void main(String[] words) throws Exception {
    DataInputStream requests = new DataInputStream(System.in);
    DataOutputStream answers = new DataOutputStream(System.out);
    System.setOut(System.err);
    Logger trash = Logger.getLogger("org.apache.hadoop.fs.TrashPolicyDefault");
    trash.setLevel(Level.INFO);
    trash.addAppender(new TrashLines());
    start(words[0], Integer.parseInt(words[1]));
    System.setSecurityManager(new NoExit());
    ExitUtil.disableSystemExit();
    PrintStream own = System.err;
    while (true) {
      int count;
      try {
        count = requests.readInt();
      } catch (EOFException end) {
        System.setSecurityManager(null);
        Runtime.getRuntime().halt(0);
        return;
      }
      String[] request = new String[count];
      for (int index = 0; index < count; index++) {
        request[index] = word(requests);
      }
      answer(request, answers);
      System.setErr(own);
      System.setOut(own);
    }
  }

  private static void answer(String[] request, DataOutputStream answers) throws Exception {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    ByteArrayOutputStream err = new ByteArrayOutputStream();
    System.setOut(new PrintStream(out, true, "UTF-8"));
    System.setErr(new PrintStream(err, true, "UTF-8"));
    InputStream in = request[1].isEmpty() ? InputStream.nullInputStream() : new FileInputStream(request[1]);
    System.setIn(in);
    int code;
    try {
      String[] arguments = Arrays.copyOfRange(request, 3, request.length);
      code = user(request[0]).doAs((PrivilegedExceptionAction<Integer>) () -> {
        try {
          if (request[2].equals("reset")) {
            reset();
            return 0;
          }
          return run(request[2], arguments);
        } catch (Throwable error) {
          error.printStackTrace();
          return 1000;
        }
      });
    } finally {
      // A file system keeps the properties that it was made with; each command has its own.
      FileSystem.closeAll();
      in.close();
      System.out.flush();
      System.err.flush();
    }
    answers.writeInt(code);
    for (byte[] bytes : new byte[][] {out.toByteArray(), err.toByteArray()}) {
      answers.writeInt(bytes.length);
      answers.write(bytes);
    }
    answers.flush();
  }
}
